"""What a program is made of: element types, operations, nodes, and the scopes in which
they are recorded."""
