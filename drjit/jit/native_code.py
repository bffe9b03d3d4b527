"""The code of the launcher as LLVM IR: workers, waiters, and the functions that queue or run a job.

`native.py` completes it (addresses in the control block, `JOBS`, `WAITERS`, `WORKERS`, `KEEN`,
`CLOCK_ID`), compiles it and calls it.
"""

# Job and Seat as LLVM sees them; the fields keep the order of the classes above.
TYPES = """
%Job = type { i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, [6 x i64] }
%Seat = type { ptr, i64, [6 x i64] }
"""

CLOCK_POSIX = """
define i64 @now(ptr %c) {
  %t = alloca [2 x i64]
  %a = call ptr @at_clock(ptr %c)
  %f = load ptr, ptr %a
  call i32 %f(i32 CLOCK_ID, ptr %t)
  %s = load i64, ptr %t
  %q = getelementptr i64, ptr %t, i64 1
  %n = load i64, ptr %q
  %m = mul i64 %s, 1000000000
  %r = add i64 %m, %n
  ret i64 %r
}
"""

# QueryPerformanceCounter counts ticks, commonly of 100 nanoseconds.
CLOCK_WINDOWS = """
define i64 @now(ptr %c) {
  %t = alloca i64
  %a = call ptr @at_clock(ptr %c)
  %f = load ptr, ptr %a
  call i32 %f(ptr %t)
  %n = load i64, ptr %t
  %b = call ptr @at_tick(ptr %c)
  %m = load i64, ptr %b
  %r = mul i64 %n, %m
  ret i64 %r
}
"""

# The protocol. A block is claimed by a compare-and-swap on `claim`, which also holds the ticket: a
# worker that was delayed while its slot got another job sees another ticket and claims nothing. No
# wake-up is lost: who parks first publishes `state`, then looks for work again; who has work first
# publishes it, then looks for states.
CODE = """
define internal void @relax(ptr %c) alwaysinline {
  %a = call ptr @at_relax(ptr %c)
  %f = load ptr, ptr %a
  call i32 %f()
  ret void
}

define internal i1 @park(ptr %c, ptr %lock, i64 %microseconds) alwaysinline {
  %a = call ptr @at_acquire(ptr %c)
  %f = load ptr, ptr %a
  %r = call i32 %f(ptr %lock, i64 %microseconds, i32 0)
  %got = icmp eq i32 %r, 1
  ret i1 %got
}

define internal void @unpark(ptr %c, ptr %seat) alwaysinline {
  %a = call ptr @at_release(ptr %c)
  %f = load ptr, ptr %a
  %lock = load ptr, ptr %seat
  call void %f(ptr %lock)
  ret void
}

; Wakes up to `count` parked workers.
define internal void @wake(ptr %c, i64 %count) {
entry:
  %pa = call ptr @at_parked(ptr %c)
  %parked = load atomic i64, ptr %pa seq_cst, align 8
  %some = icmp sgt i64 %parked, 0
  %wa = call ptr @at_workers(ptr %c)
  %workers = load i64, ptr %wa
  br i1 %some, label %loop, label %out
loop:
  %i = phi i64 [0, %entry], [%next, %step]
  %left = phi i64 [%count, %entry], [%left2, %step]
  %inside = icmp slt i64 %i, %workers
  %wanted = icmp sgt i64 %left, 0
  %go = and i1 %inside, %wanted
  br i1 %go, label %look, label %out
look:
  %seat = call ptr @at_seats(ptr %c, i64 %i)
  %sa = getelementptr %Seat, ptr %seat, i32 0, i32 1
  %x = cmpxchg ptr %sa, i64 1, i64 0 seq_cst seq_cst
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %release, label %step
release:
  call void @unpark(ptr %c, ptr %seat)
  br label %step
step:
  %taken = phi i64 [0, %look], [1, %release]
  %left2 = sub i64 %left, %taken
  %next = add i64 %i, 1
  br label %loop
out:
  ret void
}

; Unclaimed blocks of the job that may run now.
define internal i64 @claimable(ptr %c) {
entry:
  %ca = call ptr @at_completed(ptr %c)
  %done = load atomic i64, ptr %ca seq_cst, align 8
  %sa = call ptr @at_submitted(ptr %c)
  %submitted = load atomic i64, ptr %sa seq_cst, align 8
  %none = icmp sge i64 %done, %submitted
  br i1 %none, label %zero, label %look
look:
  %ticket = add i64 %done, 1
  %job = call ptr @at_jobs(ptr %c, i64 %ticket)
  %la = getelementptr %Job, ptr %job, i32 0, i32 8
  %claim = load atomic i64, ptr %la seq_cst, align 8
  %tag = lshr i64 %claim, 32
  %low = and i64 %ticket, 4294967295
  %same = icmp eq i64 %tag, %low
  %left = and i64 %claim, 4294967295
  br i1 %same, label %yes, label %zero
yes:
  ret i64 %left
zero:
  ret i64 0
}

; Wakes workers if spinning ones (and the caller, with `self` = 1) are too few for the blocks at
; hand; who is woken wakes further ones.
define internal void @recruit(ptr %c, i64 %self) {
  %left = call i64 @claimable(ptr %c)
  %pa = call ptr @at_spinning(ptr %c)
  %spinning = load atomic i64, ptr %pa seq_cst, align 8
  %hands = add i64 %spinning, %self
  %missing = sub i64 %left, %hands
  %few = call i64 @llvm.smin.i64(i64 %missing, i64 2)
  %any = icmp sgt i64 %few, 0
  br i1 %any, label %yes, label %no
yes:
  call void @wake(ptr %c, i64 %few)
  br label %no
no:
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)

; Wakes the waiters whose ticket is complete.
define internal void @notify(ptr %c, i64 %ticket) {
entry:
  %wa = call ptr @at_waiting(ptr %c)
  %waiting = load atomic i64, ptr %wa seq_cst, align 8
  %some = icmp sgt i64 %waiting, 0
  br i1 %some, label %loop, label %out
loop:
  %i = phi i64 [0, %entry], [%next, %step]
  %seat = call ptr @at_waiters(ptr %c, i64 %i)
  %sa = getelementptr %Seat, ptr %seat, i32 0, i32 1
  %state = load atomic i64, ptr %sa seq_cst, align 8
  %sits = icmp ne i64 %state, 0
  %ready = icmp sle i64 %state, %ticket
  %both = and i1 %sits, %ready
  br i1 %both, label %try, label %step
try:
  %x = cmpxchg ptr %sa, i64 %state, i64 0 seq_cst seq_cst
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %release, label %step
release:
  call void @unpark(ptr %c, ptr %seat)
  br label %step
step:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, WAITERS
  br i1 %more, label %loop, label %out
out:
  ret void
}

define internal void @begun(ptr %c, i64 %times) {
  %no = icmp eq i64 %times, 0
  br i1 %no, label %out, label %write
write:
  %t = call i64 @now(ptr %c)
  %p = inttoptr i64 %times to ptr
  store i64 %t, ptr %p
  br label %out
out:
  ret void
}

define internal void @ended(ptr %c, i64 %times) {
  %no = icmp eq i64 %times, 0
  br i1 %no, label %out, label %write
write:
  %t = call i64 @now(ptr %c)
  %p = inttoptr i64 %times to ptr
  %a = getelementptr i64, ptr %p, i64 1
  store i64 %t, ptr %a
  %start = load i64, ptr %p
  %took = sub i64 %t, %start
  %la = getelementptr i64, ptr %p, i64 2
  store i64 %took, ptr %la
  %sa = getelementptr i64, ptr %p, i64 3
  %sum = load i64, ptr %sa
  %more = add i64 %sum, %took
  store i64 %more, ptr %sa
  %na = getelementptr i64, ptr %p, i64 4
  %runs = load i64, ptr %na
  %one = add i64 %runs, 1
  store i64 %one, ptr %na
  br label %out
out:
  ret void
}

define internal void @block(i64 %kernel, i64 %params, i64 %size, i64 %block, i64 %b, i64 %thread)
    alwaysinline {
  %begin = mul i64 %b, %block
  %stop = add i64 %begin, %block
  %end = call i64 @llvm.smin.i64(i64 %stop, i64 %size)
  %some = icmp slt i64 %begin, %end
  %is = icmp ne i64 %kernel, 0
  %go = and i1 %some, %is
  br i1 %go, label %call, label %out
call:
  %f = inttoptr i64 %kernel to ptr
  call void %f(i64 %params, i64 %begin, i64 %end, i64 %b, i64 %thread)
  br label %out
out:
  ret void
}

define internal void @finish(i64 %finish, i64 %params, i64 %size, i64 %blocks, i64 %threads)
    alwaysinline {
  %no = icmp eq i64 %finish, 0
  br i1 %no, label %out, label %call
call:
  %f = inttoptr i64 %finish to ptr
  %empty = icmp sle i64 %size, 0
  %n = select i1 %empty, i64 0, i64 %blocks
  call void %f(i64 %params, i64 %n, i64 %threads)
  br label %out
out:
  ret void
}

; Runs blocks of a job until none is left. `idle`: whether this worker counts as spinning; gives
; whether it still does.
define internal i1 @take(ptr %c, i64 %ticket, i64 %thread, i1 %idle) {
entry:
  %job = call ptr @at_jobs(ptr %c, i64 %ticket)
  %tag = and i64 %ticket, 4294967295
  %la = getelementptr %Job, ptr %job, i32 0, i32 8
  %da = getelementptr %Job, ptr %job, i32 0, i32 9
  %sa = call ptr @at_spinning(ptr %c)
  %ca = call ptr @at_completed(ptr %c)
  %na = call ptr @at_submitted(ptr %c)
  %xa = call ptr @at_stop(ptr %c)
  br label %loop
loop:
  %spins = phi i1 [%idle, %entry], [%spins, %claim], [false, %ran], [false, %follow],
                  [false, %end]
  %now = load atomic i64, ptr %la acquire, align 8
  %nowtag = lshr i64 %now, 32
  %left = and i64 %now, 4294967295
  %same = icmp eq i64 %nowtag, %tag
  %some = icmp ne i64 %left, 0
  %go = and i1 %same, %some
  %stop = load atomic i64, ptr %xa monotonic, align 8
  %on = icmp eq i64 %stop, 0
  %go2 = and i1 %go, %on
  br i1 %go2, label %claim, label %out
claim:
  %a0 = getelementptr %Job, ptr %job, i32 0, i32 0
  %a1 = getelementptr %Job, ptr %job, i32 0, i32 1
  %a2 = getelementptr %Job, ptr %job, i32 0, i32 2
  %a3 = getelementptr %Job, ptr %job, i32 0, i32 3
  %a4 = getelementptr %Job, ptr %job, i32 0, i32 4
  %a5 = getelementptr %Job, ptr %job, i32 0, i32 5
  %a6 = getelementptr %Job, ptr %job, i32 0, i32 6
  %a7 = getelementptr %Job, ptr %job, i32 0, i32 7
  %kernel = load atomic i64, ptr %a0 monotonic, align 8
  %finish = load atomic i64, ptr %a1 monotonic, align 8
  %params = load atomic i64, ptr %a2 monotonic, align 8
  %size = load atomic i64, ptr %a3 monotonic, align 8
  %block = load atomic i64, ptr %a4 monotonic, align 8
  %blocks = load atomic i64, ptr %a5 monotonic, align 8
  %threads = load atomic i64, ptr %a6 monotonic, align 8
  %times = load atomic i64, ptr %a7 monotonic, align 8
  %less = sub i64 %now, 1
  %x = cmpxchg ptr %la, i64 %now, i64 %less acq_rel acquire
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %first, label %loop
first:
  br i1 %spins, label %leave, label %time
leave:
  atomicrmw sub ptr %sa, i64 1 seq_cst
  call void @recruit(ptr %c, i64 0)
  br label %time
time:
  %b = sub i64 %blocks, %left
  %zero = icmp sle i64 %b, 0
  br i1 %zero, label %start, label %run
start:
  call void @begun(ptr %c, i64 %times)
  br label %run
run:
  call void @block(i64 %kernel, i64 %params, i64 %size, i64 %block, i64 %b, i64 %thread)
  br label %ran
ran:
  %before = atomicrmw add ptr %da, i64 1 acq_rel
  %count = add i64 %before, 1
  %last = icmp eq i64 %count, %blocks
  br i1 %last, label %end, label %loop
end:
  call void @finish(i64 %finish, i64 %params, i64 %size, i64 %blocks, i64 %threads)
  call void @ended(ptr %c, i64 %times)
  store atomic i64 %ticket, ptr %ca seq_cst, align 8
  call void @notify(ptr %c, i64 %ticket)
  %submitted = load atomic i64, ptr %na seq_cst, align 8
  %more = icmp sgt i64 %submitted, %ticket
  br i1 %more, label %follow, label %loop
follow:
  call void @recruit(ptr %c, i64 1)
  br label %loop
out:
  ret i1 %spins
}

; The life of a worker: run blocks, spin a little, park.
define void @work(ptr %c, i64 %thread) {
entry:
  %seat = call ptr @at_seats(ptr %c, i64 %thread)
  %state = getelementptr %Seat, ptr %seat, i32 0, i32 1
  %lock = load ptr, ptr %seat
  %xa = call ptr @at_stop(ptr %c)
  %ca = call ptr @at_completed(ptr %c)
  %sa = call ptr @at_spinning(ptr %c)
  %pa = call ptr @at_parked(ptr %c)
  %few = icmp slt i64 %thread, KEEN
  %ka = call ptr @at_linger(ptr %c)
  %ia = call ptr @at_spin(ptr %c)
  %ta = select i1 %few, ptr %ka, ptr %ia
  %spin = load i64, ptr %ta
  br label %busy
busy:
  atomicrmw add ptr %sa, i64 1 seq_cst
  %start = call i64 @now(ptr %c)
  %deadline = add i64 %start, %spin
  br label %loop
loop:
  %stop = load atomic i64, ptr %xa seq_cst, align 8
  %on = icmp eq i64 %stop, 0
  br i1 %on, label %look, label %leave
look:
  %left = call i64 @claimable(ptr %c)
  %some = icmp ne i64 %left, 0
  br i1 %some, label %try, label %idle
try:
  %done = load atomic i64, ptr %ca acquire, align 8
  %ticket = add i64 %done, 1
  %still = call i1 @take(ptr %c, i64 %ticket, i64 %thread, i1 true)
  br i1 %still, label %idle, label %busy
idle:
  %t = call i64 @now(ptr %c)
  %early = icmp slt i64 %t, %deadline
  br i1 %early, label %yield, label %sleep
yield:
  call void @relax(ptr %c)
  br label %loop
sleep:
  atomicrmw add ptr %pa, i64 1 seq_cst
  atomicrmw xchg ptr %state, i64 1 seq_cst
  atomicrmw sub ptr %sa, i64 1 seq_cst
  %stop2 = load atomic i64, ptr %xa seq_cst, align 8
  %left2 = call i64 @claimable(ptr %c)
  %or = or i64 %stop2, %left2
  %stay = icmp eq i64 %or, 0
  br i1 %stay, label %wait, label %cancel
cancel:
  %x = cmpxchg ptr %state, i64 1, i64 0 seq_cst seq_cst
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %up, label %wait
wait:
  call i1 @park(ptr %c, ptr %lock, i64 -1)
  br label %up
up:
  atomicrmw sub ptr %pa, i64 1 seq_cst
  br label %busy
leave:
  atomicrmw sub ptr %sa, i64 1 seq_cst
  ret void
}

; Queues a job and gives its ticket, or 0 if the ring is full. Callers take turns.
define i64 @post(ptr %c, i64 %kernel, i64 %finish, i64 %params, i64 %size, i64 %block, i64 %threads,
                 i64 %times) {
entry:
  %na = call ptr @at_submitted(ptr %c)
  %ca = call ptr @at_completed(ptr %c)
  %before = load atomic i64, ptr %na monotonic, align 8
  %done = load atomic i64, ptr %ca acquire, align 8
  %flying = sub i64 %before, %done
  %full = icmp sge i64 %flying, JOBS
  br i1 %full, label %no, label %yes
yes:
  %ticket = add i64 %before, 1
  %job = call ptr @at_jobs(ptr %c, i64 %ticket)
  %ceil = add i64 %size, %block
  %ceil1 = sub i64 %ceil, 1
  %quotient = udiv i64 %ceil1, %block
  %blocks = call i64 @llvm.smax.i64(i64 %quotient, i64 1)
  %a0 = getelementptr %Job, ptr %job, i32 0, i32 0
  %a1 = getelementptr %Job, ptr %job, i32 0, i32 1
  %a2 = getelementptr %Job, ptr %job, i32 0, i32 2
  %a3 = getelementptr %Job, ptr %job, i32 0, i32 3
  %a4 = getelementptr %Job, ptr %job, i32 0, i32 4
  %a5 = getelementptr %Job, ptr %job, i32 0, i32 5
  %a6 = getelementptr %Job, ptr %job, i32 0, i32 6
  %a7 = getelementptr %Job, ptr %job, i32 0, i32 7
  %a8 = getelementptr %Job, ptr %job, i32 0, i32 8
  %a9 = getelementptr %Job, ptr %job, i32 0, i32 9
  store atomic i64 %kernel, ptr %a0 monotonic, align 8
  store atomic i64 %finish, ptr %a1 monotonic, align 8
  store atomic i64 %params, ptr %a2 monotonic, align 8
  store atomic i64 %size, ptr %a3 monotonic, align 8
  store atomic i64 %block, ptr %a4 monotonic, align 8
  store atomic i64 %blocks, ptr %a5 monotonic, align 8
  store atomic i64 %threads, ptr %a6 monotonic, align 8
  store atomic i64 %times, ptr %a7 monotonic, align 8
  store atomic i64 0, ptr %a9 monotonic, align 8
  %high = shl i64 %ticket, 32
  %claim = or i64 %high, %blocks
  store atomic i64 %claim, ptr %a8 release, align 8
  store atomic i64 %ticket, ptr %na seq_cst, align 8
  call void @recruit(ptr %c, i64 0)
  ret i64 %ticket
no:
  ret i64 0
}
declare i64 @llvm.smax.i64(i64, i64)

; Runs a job in the calling thread.
define void @run(ptr %c, i64 %kernel, i64 %finish, i64 %params, i64 %size, i64 %block, i64 %threads,
                 i64 %times) {
entry:
  call void @begun(ptr %c, i64 %times)
  br label %loop
loop:
  %b = phi i64 [0, %entry], [%next, %loop]
  call void @block(i64 %kernel, i64 %params, i64 %size, i64 %block, i64 %b, i64 0)
  %next = add i64 %b, 1
  %reached = mul i64 %next, %block
  %more = icmp slt i64 %reached, %size
  br i1 %more, label %loop, label %out
out:
  call void @finish(i64 %finish, i64 %params, i64 %size, i64 %next, i64 %threads)
  call void @ended(ptr %c, i64 %times)
  ret void
}

; Waits for a ticket, for at most about `microseconds`; gives 1 when it is complete.
define i64 @await(ptr %c, i64 %ticket, i64 %waiter, i64 %microseconds) {
entry:
  %ca = call ptr @at_completed(ptr %c)
  %wa = call ptr @at_waiting(ptr %c)
  %seat = call ptr @at_waiters(ptr %c, i64 %waiter)
  %state = getelementptr %Seat, ptr %seat, i32 0, i32 1
  %lock = load ptr, ptr %seat
  %ia = call ptr @at_spin(ptr %c)
  %spin = load i64, ptr %ia
  %start = call i64 @now(ptr %c)
  %deadline = add i64 %start, %spin
  br label %loop
loop:
  %done = load atomic i64, ptr %ca acquire, align 8
  %ready = icmp sge i64 %done, %ticket
  br i1 %ready, label %yes, label %idle
idle:
  %t = call i64 @now(ptr %c)
  %early = icmp slt i64 %t, %deadline
  br i1 %early, label %yield, label %sleep
yield:
  call void @relax(ptr %c)
  br label %loop
sleep:
  atomicrmw add ptr %wa, i64 1 seq_cst
  atomicrmw xchg ptr %state, i64 %ticket seq_cst
  %done2 = load atomic i64, ptr %ca seq_cst, align 8
  %ready2 = icmp sge i64 %done2, %ticket
  br i1 %ready2, label %cancel, label %wait
wait:
  %woken = call i1 @park(ptr %c, ptr %lock, i64 %microseconds)
  br i1 %woken, label %up, label %cancel
cancel:
  %x = cmpxchg ptr %state, i64 %ticket, i64 0 seq_cst seq_cst
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %up, label %drain
drain:
  call i1 @park(ptr %c, ptr %lock, i64 -1)
  br label %up
up:
  atomicrmw sub ptr %wa, i64 1 seq_cst
  %done3 = load atomic i64, ptr %ca acquire, align 8
  %ready3 = icmp sge i64 %done3, %ticket
  br i1 %ready3, label %yes, label %no
yes:
  ret i64 1
no:
  ret i64 0
}

; Tells the workers to leave, between two blocks.
define void @halt(ptr %c) {
  %xa = call ptr @at_stop(ptr %c)
  store atomic i64 1, ptr %xa seq_cst, align 8
  call void @wake(ptr %c, i64 WORKERS)
  ret void
}
"""
