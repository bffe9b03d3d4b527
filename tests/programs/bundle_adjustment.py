"""Bundle adjustment: poses of cameras and points are found from where points are seen, by steps of
Gauss and Newton with damping (Triggs et al. 2000). The Jacobian comes from forward mode."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Float, Matrix3f, Quaternion4f, UInt

CAMERAS, POINTS, FOCAL = 4, 12, 1.4


@dataclass
class Pose:
    rotation: Quaternion4f
    position: Array3f

    def __call__(self, p: Array3f) -> Array3f:
        return dr.quat_apply(self.rotation, p - self.position)


@dataclass
class Problem:
    poses: Pose
    points: Array3f


def truth() -> Problem:
    k = dr.arange(Float, CAMERAS)
    angle = (k - 1.5) * 0.35
    rotation = dr.rotate(Quaternion4f, Array3f(0, 1, 0), angle)
    s, c = dr.sincos(angle)
    position = Array3f(4 * s, 0.3 * k - 0.4, -4 * c)
    points = dr.rng(seed=21).uniform(Array3f, (3, POINTS), -1, 1)
    return Problem(Pose(rotation, position), points)


def exponential(w: Array3f) -> Quaternion4f:
    """The quaternion of a small rotation vector."""
    return dr.normalize(Quaternion4f(0.5 * w.x, 0.5 * w.y, 0.5 * w.z, 1))


def pairs() -> tuple[UInt, UInt]:
    return dr.meshgrid(dr.arange(UInt, CAMERAS), dr.arange(UInt, POINTS), indexing="ij")


def observe(problem: Problem) -> Array2f:
    """Where every camera sees every point."""
    camera, point = pairs()
    pose = dr.gather(Pose, problem.poses, camera)
    q = pose(dr.gather(Array3f, problem.points, point))
    return FOCAL * q.xy / q.z


def moved(problem: Problem, w: Array3f, t: Array3f, d: Array3f) -> Problem:
    poses = Pose(dr.normalize(exponential(w) * problem.poses.rotation), problem.poses.position + t)
    return Problem(poses, problem.points + d)


def jacobian(problem: Problem) -> list[Array2f]:
    """Derivatives of an observation by the six parameters of its camera and the three of its point,
    one direction after the other for all cameras and points at once."""
    rows: list[Array2f] = []
    for k in range(9):
        w, t, d = dr.zeros(Array3f, CAMERAS), dr.zeros(Array3f, CAMERAS), dr.zeros(Array3f, POINTS)
        dr.enable_grad(w, t, d)
        direction = Array3f(*(1.0 if i == k % 3 else 0.0 for i in range(3)))
        dr.set_grad((w, t, d)[k // 3], direction)
        seen = observe(moved(problem, w, t, d))
        rows.append(dr.forward_to(seen))
    return rows


def normal_equations(
    rows: list[Array2f], residual: Array2f
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The matrix and right side; blocks are summed by scatters, the first camera is fixed."""
    size = CAMERAS * 6 + POINTS * 3
    camera, point = pairs()
    places = [camera * 6 + k for k in range(6)] + [CAMERAS * 6 + point * 3 + k for k in range(3)]
    matrix, right = dr.zeros(Float, size * size), dr.zeros(Float, size)
    for a in range(9):
        dr.scatter_add(right, dr.dot(rows[a], residual), places[a])
        for b in range(9):
            value = dr.dot(rows[a], rows[b])
            dr.scatter_reduce(dr.ReduceOp.Add, matrix, value, places[a] * size + places[b])
    return np.array(matrix).reshape(size, size), np.array(right)


def main() -> Array2f:
    exact = truth()
    seen = observe(exact)
    print("seen", dr.mean(seen, axis=1), dr.max(dr.norm(seen)))
    rng = dr.rng(seed=5)
    problem = moved(
        exact,
        0.05 * rng.normal(Array3f, (3, CAMERAS)),
        0.1 * rng.normal(Array3f, (3, CAMERAS)),
        0.1 * rng.normal(Array3f, (3, POINTS)),
    )
    damping = 1e-2
    for i in range(6):
        residual = seen - observe(problem)
        error = dr.sqrt(dr.mean(dr.squared_norm(residual)))
        if i < 3:
            print("error", i, error)
        rows = jacobian(problem)
        if i == 0:
            print("jacobian", [float(dr.sum(dr.norm(r))[0]) for r in rows])
        matrix, right = normal_equations(rows, residual)
        matrix = matrix + damping * np.eye(len(right))
        step = np.linalg.solve(matrix.astype(np.float64), right.astype(np.float64))
        poses = step[: CAMERAS * 6].reshape(CAMERAS, 2, 3).astype(np.float32)
        points = step[CAMERAS * 6 :].reshape(POINTS, 3).astype(np.float32)
        w, t = (Array3f(np.ascontiguousarray(poses[:, k].T)) for k in range(2))
        problem = moved(problem, w, t, Array3f(np.ascontiguousarray(points.T)))
        damping *= 0.3
        dr.eval(problem)
    error = dr.sqrt(dr.mean(dr.squared_norm(seen - observe(problem))))
    print("converged", error < 1e-3)

    # the same problem's gradient in reverse mode agrees with the Jacobian's product
    start = moved(exact, Array3f(0.01), Array3f(0.02), Array3f(-0.01))
    points = Array3f(start.points)
    dr.enable_grad(points)
    residual = observe(Problem(start.poses, points)) - seen
    dr.backward(0.5 * dr.sum(dr.squared_norm(residual)))
    rows = jacobian(start)
    _, point = pairs()
    product = dr.zeros(Array3f, POINTS)
    for k in range(3):
        dr.scatter_add(product[k], dr.dot(rows[6 + k], dr.detach(residual)), point)
    print("reverse", dr.gather(Array3f, points.grad, UInt(0, 5)))
    print("agrees", dr.allclose(points.grad, product, atol=1e-4))
    matrix = dr.quat_to_matrix(Matrix3f, exact.poses.rotation)
    print("determinants", dr.det(matrix), matrix[0, 2])
    return seen


if __name__ == "__main__":
    main()
