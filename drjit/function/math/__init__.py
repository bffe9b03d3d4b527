"""Mathematical functions: element-wise ones, and those of small vectors and matrices."""
