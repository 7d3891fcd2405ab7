"""A small web shop: a catalogue, a cart, orders, and a payment gateway that only pretends."""

__version__ = "1.4.0"
