"""Looking at values, types and kernels: printing, assertions, pictures, lists and profiles."""
