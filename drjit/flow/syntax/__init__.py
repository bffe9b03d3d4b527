"""The decorator `syntax`: Python statements turned into loops and branches."""
