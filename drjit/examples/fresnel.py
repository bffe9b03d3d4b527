"""Integrates sin(x^2) from 0 to 1, a Fresnel integral, and prints the kernel that computes it."""

import drjit as dr
from drjit.auto import Float


def main() -> None:
    # Nothing is computed here: operations are recorded until a result is asked for.
    a = dr.linspace(Float, 0, 1, 1_000_000)
    integral = dr.mean(dr.sin(a * a))

    print(dr.kernel_source(integral))
    print(integral)


if __name__ == "__main__":
    main()
