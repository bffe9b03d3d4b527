"""Files that are damaged, foreign or hostile: one class of errors, and nothing is half loaded."""

import json
import os
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.damaging import mutated, mutated_members

import drjit as dr
from drjit import nn
from drjit.function.exchange.array_file import FileFormatError
from drjit.llvm.ad import Bool, Float, Float64, TensorXf
from drjit.opt import Adam

DAMAGED = "the file is damaged or of another format"
FACTS = '{"version": 1, "text": {}}'


def member(values: Any, header: str | None = None, version: int = 1, length: int = -1) -> bytes:
    """An `.npy` file, with another header if need be."""
    array = np.asarray(values)
    if header is None:
        order, shape = array.flags.f_contiguous and not array.flags.c_contiguous, array.shape
        header = f"{{'descr': '{array.dtype.str}', 'fortran_order': {order}, 'shape': {shape}, }}"
    text = header.encode()
    size = len(text) if length < 0 else length
    digits = size.to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + digits + text + array.tobytes("A")


def archive(path: Path, members: list[tuple[str, bytes | str]], method: int = 0) -> None:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members:
            file.writestr(name, data)


def tensors(path: Path, header: Any, data: bytes = bytes(4)) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def rejected(path: Path, found: str, where: str | None) -> None:
    """A file is refused by each function that reads its arrays, with the part of it that is wrong,
    and the state is what it was."""
    whole = f": {where}: " if where else ": "
    for load in (dr.load, nn.load):
        for given in (None, {"x": Float(5)}):
            with pytest.raises(FileFormatError) as caught:
                load(path, given)
            text = str(caught.value)
            assert text.startswith(f"d{'r' if load is dr.load else 'rjit.nn'}.load({str(path)!r})")
            assert f"{whole}{DAMAGED} (expected " in text, text
            assert found in text, text
            assert len(text) < 1000
            assert given is None or (list(given) == ["x"] and given["x"][0] == 5)


F4 = "{'descr': '<f4', 'fortran_order': False, 'shape': "
HEADERS: dict[str, tuple[str, str]] = {
    "a brace": ("{", "found '{'"),
    "nothing": ("", "found ''"),
    "a key is missing": ("{'descr': '<f4', 'shape': (1,)}", "'fortran_order'"),
    "a key twice": (F4 + "(1,), 'shape': (1,)}", "'shape'"),
    "another key": (F4 + "(1,), 'more': True}", "'shape'"),
    "objects": ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "found '|O'"),
    "fields": ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "'descr'"),
    "raw": ("{'descr': '|V4', 'fortran_order': False, 'shape': (1,)}", "found '|V4'"),
    "no type": ("{'descr': '<f5', 'fortran_order': False, 'shape': (1,)}", "f5"),
    "no order": ("{'descr': '<f4', 'fortran_order': (1,), 'shape': (1,)}", "'(1,)'"),
    "negative": (F4 + "(-1,)}", "'shape'"),
    "a shape that is none": (F4 + "(1 2)}", "found '(1 2)'"),
    "a code": (F4 + "__import__('os').getpid()}", "'shape'"),
    "larger": (F4 + "(2,)}", "expected 8 bytes for float32 of shape (2,), found 4"),
    "smaller": (F4 + "(0, 5)}", "expected 0 bytes for float32 of shape (0, 5), found 4"),
    "huge": (F4 + "(9223372036854775807, 2)}", "found 4"),
    "more digits": (F4 + f"({'9' * 5000},)}}", "found '(9999"),
    "many dimensions": (F4 + f"({'1, ' * 100})}}", "expected at most 32 dimensions, found 100"),
    "deep": ("(" * 9000, "found '(((("),
    "long": ("{" + " " * 20000 + "}", "expected a header of at most 10000 bytes, found 20002"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_of_arrays(tmp_path: Path, what: str) -> None:
    header, found = HEADERS[what]
    archive(tmp_path / "a.npz", [("x.npy", member(np.float32(1), header)), ("drjit.json", FACTS)])
    rejected(tmp_path / "a.npz", found, "'x'")


MEMBERS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "found b''"),
    "text": (b"hello, world", "found b'hello, w'"),
    "a picture": (b"\x89PNG\r\n\x1a\n", "found b'"),
    "a version": (member(np.float32(1), version=9), "expected an array of NumPy's format 1, 2 or"),
    "cut in the header": (member(np.float32(1))[:20], "'shape'"),
    "cut": (member(np.float32(1))[:-1], "expected 4 bytes for float32 of shape (), found 3"),
    "longer": (member(np.float32(1)) + b"x", "found 5"),
    "a long header": (member(np.float32(1), version=2, length=1 << 31), "found 2147483648"),
    "no text": (member(np.float32(1), version=3).replace(b"descr", b"desc\xff"), "utf-8"),
}


@pytest.mark.parametrize("what", MEMBERS)
def test_members_that_are_no_arrays(tmp_path: Path, what: str) -> None:
    data, found = MEMBERS[what]
    archive(tmp_path / "a.npz", [("x.npy", data), ("drjit.json", FACTS)])
    rejected(tmp_path / "a.npz", found, "'x'")


FACTS_INSTEAD = {
    "null": ("null", "found None"),
    "a list": ("[]", "found []"),
    "a number": ("3", "found 3"),
    "a text": ('"x"', "found 'x'"),
    "nothing": ("", "expected JSON"),
    "cut": ('{"version"', "expected JSON"),
    "no text": ('{"version": 1}', "expected 'text': names with texts, found None"),
    "text is null": ('{"version": 1, "text": null}', "found None"),
    "text is a list": ('{"version": 1, "text": ["a"]}', "found ['a']"),
    "no texts": ('{"version": 1, "text": {"a": 1}}', "found {'a': 1}"),
    "version 0": ('{"version": 0, "text": {}}', "expected a version from 1, found 0"),
    "version 1.5": ('{"version": 1.5, "text": {}}', "found 1.5"),
    "version true": ('{"version": true, "text": {}}', "found True"),
    "version text": ('{"version": "1", "text": {}}', "found '1'"),
    "version of many digits": (f'{{"version": {"9" * 5000}, "text": {{}}}}', "expected JSON"),
    "an array's name": ('{"version": 1, "text": {"x": "y"}}', "found 'x' for a text and an array"),
    "twice": ('{"version": 1, "version": 1, "text": {}}', "found 'version' twice"),
    "deep": ("[" * 100_000, "expected JSON"),
    "no utf-8": (b'{"version": 1, "text": {"a": "\xff"}}', "expected JSON"),
}


@pytest.mark.parametrize("form", ["npz", "safetensors"])
@pytest.mark.parametrize("what", FACTS_INSTEAD)
def test_facts(tmp_path: Path, form: str, what: str) -> None:
    text, found = FACTS_INSTEAD[what]
    path = tmp_path / f"a.{form}"
    if form == "npz":
        archive(path, [("x.npy", member(np.float32([1]))), ("drjit.json", text)])
    elif isinstance(text, bytes):
        pytest.skip("is no JSON")
    else:
        entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
        tensors(path, {"__metadata__": {"drjit": text}, "x": entry})
    for state in (None, {"x": Float(5)}):
        with pytest.raises(FileFormatError) as caught:
            dr.load(path, state)
        where = f"dr.load({str(path)!r}): "
        assert str(caught.value).startswith(where) and found in str(caught.value)
        assert state is None or state["x"][0] == 5
    assert nn.load(path)["x"].shape == (1,)  # which has no use for them


def patched(path: Path, field: int, size: int, value: int, at: bytes = b"PK\x01\x02") -> None:
    """Changes a field of a directory entry of an archive, or of the header of a member."""
    data = bytearray(path.read_bytes())
    start = data.index(at) + field
    data[start : start + size] = value.to_bytes(size, "little")
    path.write_bytes(data)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = data.index(b"x.npy") + 5
    data[start + 2] ^= 0xFF
    path.write_bytes(data)


def of_two(path: Path, first: str, second: str) -> None:
    with pytest.warns(UserWarning) if first == second else pytest.MonkeyPatch.context():
        archive(path, [(first, member([1])), (second, member([2]))])


def overlapping(path: Path) -> None:
    archive(path, [("x.npy", member([1])), ("y.npy", member([2]))])
    data = bytearray(path.read_bytes())
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = (20).to_bytes(4, "little")
    path.write_bytes(data)


ARCHIVES: dict[str, tuple[Callable[[Path], None], str, str | None]] = {
    "a flipped bit": (flip, "expected an array of NumPy: ", "'x'"),
    "a wrong sum": (lambda p: patched(p, 16, 4, 1), "Bad CRC-32", "'x'"),
    "a password": (lambda p: patched(p, 8, 2, 1), "found one with a password", "'x'"),
    "another method": (lambda p: patched(p, 10, 2, 12), "found compression method 12", "'x'"),
    "a larger size": (lambda p: patched(p, 24, 4, 900), "found ", "'x'"),
    "a huge size": (lambda p: patched(p, 24, 4, 1 << 31), "found 2147483648", "'x'"),
    "a place behind the end": (lambda p: patched(p, 20, 4, 1 << 30), "its end within", "'x'"),
    "another name in front": (
        lambda p: patched(p, 30, 1, ord("z"), b"PK\x03\x04"), "differ", "'x'",
    ),
    "no directory": (lambda p: patched(p, 16, 4, 1 << 31, b"PK\5\6"), "found byte -", "'x'"),
    "a name twice": (lambda p: of_two(p, "x.npy", "x.npy"), "found 'x' twice", None),
    "a name with two endings": (lambda p: of_two(p, "x", "x.npy"), "found 'x' twice", None),
    "in the same place": (overlapping, "found byte 20", "'y'"),
    "nothing": (lambda p: p.write_bytes(b""), "expected a zip archive", None),
    "a text": (lambda p: p.write_text("hello"), "expected a zip archive", None),
}  # fmt: skip


@pytest.mark.parametrize("what", ARCHIVES)
def test_archives(tmp_path: Path, what: str) -> None:
    change, found, where = ARCHIVES[what]
    path = tmp_path / "a.npz"
    archive(path, [("x.npy", member(np.zeros(50, np.float32)))], zipfile.ZIP_DEFLATED)
    change(path)
    for given in (None, {"x": Float(5), **({"y": Float(5)} if where == "'y'" else {})}):
        with pytest.raises(FileFormatError) as caught:
            nn.load(path, given)
        whole = f": {where}: {DAMAGED}" if where else f": {DAMAGED}"
        assert whole in str(caught.value) and found in str(caught.value), str(caught.value)
        assert given is None or given["x"][0] == 5


X = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
TENSORS: dict[str, tuple[Any, str, str | None]] = {
    "null": (b"null", "found None", "the header"),
    "cut": (b'{"x"', "expected JSON", "the header"),
    "deep": (b"[" * 100_000, "expected JSON", "the header"),
    "a list": ([X], "found [", "the header"),
    "twice": (b'{"x": 1, "x": 1}', "found 'x' twice", "the header"),
    "no entry": ({"x": 3}, "found 3", "'x'"),
    "a field more": ({"x": X | {"more": 1}}, "'data_offsets'", "'x'"),
    "no shape": ({"x": X | {"shape": 3}}, "a type, and a shape", "'x'"),
    "a negative shape": ({"x": X | {"shape": [-1]}}, "a type, and a shape", "'x'"),
    "a shape of floats": ({"x": X | {"shape": [1.0]}}, "a type, and a shape", "'x'"),
    "a shape that is true": ({"x": X | {"shape": [True]}}, "a type, and a shape", "'x'"),
    "many dimensions": ({"x": X | {"shape": [1] * 100}}, "at most 32 dimensions", "'x'"),
    "another size": ({"x": X | {"shape": [2]}}, "expected 8 bytes for float32 of shape", "'x'"),
    "a huge size": ({"x": X | {"shape": [2**62, 2**62]}}, "found 4", "'x'"),
    "another type": ({"x": X | {"dtype": "BF16", "shape": [2]}}, "found 'BF16'", "'x'"),
    "no type": ({"x": X | {"dtype": 4}}, "a type, and a shape", "'x'"),
    "one place": ({"x": X | {"data_offsets": [0]}}, "found [0]", "'x'"),
    "backwards": ({"x": X | {"data_offsets": [4, 0]}}, "found [4, 0]", "'x'"),
    "a gap": ({"x": X | {"data_offsets": [1, 4]}}, "data from byte 0, found from byte 1", "'x'"),
    "overlapping": ({"x": X, "y": X}, "data from byte 4, found from byte 0", "'y'"),
    "behind the end": ({"x": X | {"data_offsets": [0, 8]}}, "found 8 according", None),
    "too little": ({}, "expected 4 bytes of arrays, found 0", None),
    "facts": ({"__metadata__": {"a": 1}, "x": X}, "found {'a': 1}", "'__metadata__'"),
}


@pytest.mark.parametrize("what", TENSORS)
def test_safetensors(tmp_path: Path, what: str) -> None:
    header, found, where = TENSORS[what]
    if isinstance(header, dict):
        header = {"__metadata__": {"drjit": FACTS}} | header
    tensors(tmp_path / "a.safetensors", header)
    rejected(tmp_path / "a.safetensors", found, where)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 40])
def test_safetensors_that_are_cut(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.safetensors"
    tensors(path, {"x": X})
    path.write_bytes(path.read_bytes()[:length])
    rejected(path, "found ", None)
    path.write_bytes((1 << 62).to_bytes(8, "little"))
    rejected(path, f"found {1 << 62}", None)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npz")
    rejected(tmp_path / "a.npz", "something else, such as a pipe", None)
    (tmp_path / "b.npz").mkdir()
    with pytest.raises(IsADirectoryError):
        dr.load(tmp_path / "b.npz")


# ---- Memory


def peak(f: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def large(path: Path, size: int = 32 << 20) -> None:
    """A file of some kilobytes with 32 MiB of zeros."""
    data = member(np.zeros(size // 4, np.float32))
    members = [("x.npy", data), ("y.npy", member(np.float32([7]))), ("drjit.json", FACTS)]
    archive(path, members, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < size / 500


@pytest.mark.parametrize("load", [dr.load, nn.load])
def test_shapes_are_compared_before_anything_is_unpacked(tmp_path: Path, load: Any) -> None:
    large(tmp_path / "a.npz")

    def refused() -> None:
        with pytest.raises(ValueError, match=r"'x' has shape \(1,\), in the file \(8388608,\)"):
            load(tmp_path / "a.npz", {"x": Float(5), "y": Float(5)})
        with pytest.raises(KeyError, match=r"surplus: 'x'"):
            load(tmp_path / "a.npz", {"y": Float(5)})

    refused()
    assert peak(refused) < 4 << 20


@pytest.mark.parametrize("load", [dr.load, nn.load])
def test_what_nobody_asks_for_stays_packed(tmp_path: Path, load: Any) -> None:
    large(tmp_path / "a.npz")
    state = {"y": Float(5)}
    load(tmp_path / "a.npz", state, strict=False)
    assert peak(lambda: load(tmp_path / "a.npz", state, strict=False)) < 4 << 20
    assert state["y"][0] == 7
    # Damage there is not looked for either.
    members = [("x.npy", b"?"), ("y.npy", member(np.float32([8]))), ("drjit.json", FACTS)]
    archive(tmp_path / "a.npz", members)
    load(tmp_path / "a.npz", state, strict=False)
    assert state["y"][0] == 8


def test_facts_are_no_longer_than_they_may_be(tmp_path: Path) -> None:
    text = '{"version": 1, "text": {}' + " " * (32 << 20) + "}"
    members = [("x.npy", member(np.float32([1]))), ("drjit.json", text)]
    archive(tmp_path / "a.npz", members, zipfile.ZIP_DEFLATED)

    def refused() -> None:
        with pytest.raises(FileFormatError, match=r"'drjit.json': .* found 33554458\)"):
            dr.load(tmp_path / "a.npz")

    del text, members
    refused()
    assert peak(refused) < 4 << 20


# ---- What is no damage


def test_files_of_others_are_read(tmp_path: Path) -> None:
    """What NumPy and other programs write, in any order of bytes and indices."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=x.T, y=x.astype(">f4"), z=np.array(["a", "bc"]), w=x.T[:, :0])
    found = nn.load(path)
    np.testing.assert_array_equal(found["x"], x.T)
    np.testing.assert_array_equal(found["y"], x)
    assert found["y"].dtype == np.float32 and found["z"].tolist() == ["a", "bc"]
    assert found["w"].shape == (3, 0)
    assert all(v.flags.writeable for v in found.values())
    state = {"x": TensorXf(x.T * 0), "y": TensorXf(x * 0)}
    nn.load(path, state, strict=False)
    np.testing.assert_array_equal(np.array(state["x"]), x.T)
    np.testing.assert_array_equal(np.array(state["y"]), x)
    for header in ('{"shape":(2,3),"descr":"<f4","fortran_order":False}', f"{F4} ( 2L, 3L ) }}\n"):
        archive(path, [("x", member(x, header))])
        np.testing.assert_array_equal(nn.load(path)["x"], x)
    for version in (2, 3):
        archive(path, [("x", member(x, version=version))])
        np.testing.assert_array_equal(nn.load(path)["x"], x)


def test_masks_have_two_values(tmp_path: Path) -> None:
    header = "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }"
    archive(tmp_path / "a.npz", [("x.npy", member(np.uint8([0, 1, 2, 255]), header))])
    entry = {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]}
    tensors(tmp_path / "a.safetensors", {"x": entry}, b"\0\1\2\xff")
    for form in ("npz", "safetensors"):
        found = nn.load(tmp_path / f"a.{form}")["x"]
        assert found.view(np.uint8).tolist() == [0, 1, 1, 1]
        state = {"x": Bool(True, True, True, True)}
        nn.load(tmp_path / f"a.{form}", state)
        assert dr.count(state["x"])[0] == 3


def test_safetensors_are_read_without_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("safetensors")
    path = tmp_path / "a.safetensors"
    state = {"x": Float(1, 2), "y": Float64(3), "b": Bool(True, False), "note": "hello"}
    dr.save(path, state)
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    found = dr.load(path)
    assert {k: np.array(v).tolist() for k, v in found.items()} == {
        "x": [1, 2], "y": [3], "b": [True, False], "note": "hello",
    }  # fmt: skip


class Picky:
    """An object that knows its state, and does not take each."""

    def __init__(self) -> None:
        self.k = 1

    def state_dict(self) -> dict[str, Any]:
        return {"k": self.k}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.k = saved["k"]
        if self.k < 0:
            raise RuntimeError("k must not be negative")


def test_a_state_that_refuses_values_is_what_it_was(tmp_path: Path) -> None:
    def state(k: float) -> dict[str, Any]:
        picky = Picky()
        picky.k = int(k)
        return {"a": [Float(k)], "opt": Adam(abs(k), {"x": Float(k, k)}), "p": picky, "z": Float(k)}

    dr.save(tmp_path / "a.npz", state(-3))
    own = state(1)
    inner = own["a"]
    with pytest.raises(FileFormatError, match=r"the state takes no such values \(k must not"):
        dr.load(tmp_path / "a.npz", own)
    assert own["a"] is inner and inner[0][0] == 1 and own["z"][0] == 1 and own["p"].k == 1
    assert own["opt"].lr == 1 and own["opt"]["x"][0] == 1


# ---- Mutations


def state_of(k: float) -> dict[str, Any]:
    return {
        "x": TensorXf(np.full((2, 3), k)), "opt": Adam(abs(k), {"w": Float(k, 2, 3)}),
        "n": int(k), "name": f"run {k}", "mask": Bool(k > 2, True), "rng": dr.rng(seed=int(k)),
    }  # fmt: skip


def mutated_header(data: bytes, r: random.Random) -> bytes:
    """The header of a file of tensors is changed, and its length is right."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = mutated(data[8:start], r)
    return len(header).to_bytes(8, "little") + header + data[start:]


FORMS = {
    "npz": (mutated, mutated_members), "packed": (mutated, mutated_members),
    "safetensors": (mutated, mutated_header),
}  # fmt: skip


def repacked(path: Path) -> None:
    with zipfile.ZipFile(path) as file:
        members = [(name, file.read(name)) for name in file.namelist()]
    archive(path, members, zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [50, pytest.param(2000, marks=pytest.mark.sweep)])
def test_mutated_files(tmp_path: Path, form: str, count: int) -> None:
    """They are loaded, or a documented error names the file, and the state is what it was."""
    path = tmp_path / ("a.safetensors" if form == "safetensors" else "a.npz")
    if form == "safetensors":
        pytest.importorskip("safetensors")
    dr.save(path, state_of(3))
    if form == "packed":
        repacked(path)
    whole = path.read_bytes()
    r = random.Random(f"{form} {count}")
    state = state_of(4)
    before = shown(state)
    failed = 0
    for k in range(count):
        data = FORMS[form][k % 2](whole, r)
        path.write_bytes(data)
        try:
            dr.load(path, state)
        except (FileFormatError, KeyError, TypeError, ValueError) as error:
            assert type(error) in (FileFormatError, KeyError, TypeError, ValueError), error
            assert f"dr.load({str(path)!r})" in str(error.args[0])
            assert type(error) is not ValueError or "has shape" in str(error)
            assert shown(state) == before, k
            failed += 1
        else:
            state = state_of(4)
        try:
            dr.load(path)
        except FileFormatError as error:
            assert f"dr.load({str(path)!r})" in str(error)
    assert count / 2 < failed < count


def shown(state: dict[str, Any]) -> str:
    return repr([state, state["opt"].state_dict()])
