"""Interoperability: functions of other frameworks as functions of this one, and vice versa."""
