"""From a cart to a paid order."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    number: int
    lines: tuple
    total_cents: int
    receipt: str


class OrderBook:
    def __init__(self, gateway, first_number=1000):
        self._gateway = gateway
        self._next_number = first_number
        self._orders = {}

    def place(self, cart, card):
        """Charges the card and books the order; a refused payment books nothing."""
        if cart.is_empty():
            raise ValueError("the cart is empty")
        number = self._next_number
        receipt = self._gateway.charge(card, cart.total_cents(), number)
        lines = tuple((product.sku, quantity) for product, quantity in cart.lines())
        order = Order(number, lines, cart.total_cents(), receipt)
        self._orders[number] = order
        self._next_number += 1
        return order

    def get(self, number):
        return self._orders[number]
