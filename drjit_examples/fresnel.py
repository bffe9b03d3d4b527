"""Integrates sin(x²) from 0 to 1, and prints the kernel that does it.

This is one of Fresnel's integrals; the mean of a million values approximates it.
"""

import drjit as dr
from drjit.auto import Float
from drjit_examples.common import Options, start


def main() -> None:
    Options(__doc__).parse()

    # Nothing is computed here: operations are recorded until a result is asked for.
    a = dr.linspace(Float, 0, 1, 1_000_000)
    integral = dr.mean(dr.sin(a * a))

    print(dr.kernel_source(integral))
    print(integral)


if __name__ == "__main__":
    start(main)
