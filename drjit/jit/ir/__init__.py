"""The intermediate representation: element types, operations, nodes, and the scopes in which nodes
are recorded."""
