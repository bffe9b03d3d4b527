"""The math library: elementary and special functions, written once as kernel text.

On NumPy the modules run as they stand; the compiled targets translate them. Each function is within
2 ulp over the whole range. Methods follow J.-M. Muller, "Elementary Functions" (3rd ed., 2016);
polynomials are minimax approximations, made for the precision at hand.
"""
