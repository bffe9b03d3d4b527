"""The math library: elementary and special functions, written once as kernel text.

The modules import nothing: their names are those of the language, and of each other. `library.load`
runs them on NumPy arrays or single numbers; the compiled targets translate them. Each function is
accurate to 2 ulp over the whole range. Methods follow J.-M. Muller, "Elementary Functions" (3rd
ed., 2016); polynomials are minimax approximations for the precision of each type.
"""
