"""Products and where to find them. Prices are whole cents."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    sku: str
    name: str
    price_cents: int
    stock: int


PRODUCTS = [
    Product("TEA-GRN", "Green tea, 100 g", 780, 42),
    Product("TEA-BLK", "Black tea, 100 g", 640, 58),
    Product("POT-CLY", "Clay teapot", 3450, 7),
    Product("CUP-SML", "Small cup", 590, 120),
    Product("TIN-RED", "Red storage tin", 950, 0),
]


class Catalog:
    def __init__(self, products=PRODUCTS):
        self._by_sku = {product.sku: product for product in products}

    def __iter__(self):
        return iter(self._by_sku.values())

    def get(self, sku):
        """The product, or KeyError."""
        return self._by_sku[sku]

    def search(self, words):
        """Products whose name holds every one of the words, cheapest first."""
        wanted = words.lower().split()
        found = [p for p in self if all(word in p.name.lower() for word in wanted)]
        return sorted(found, key=lambda p: p.price_cents)

    def available(self):
        return [p for p in self if p.stock > 0]


def format_price(cents):
    return f"{cents // 100}.{cents % 100:02d}"
