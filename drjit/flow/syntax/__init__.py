"""The decorator `syntax`: converts Python statements to loops and branches."""
