"""What a customer is about to buy."""

FREE_SHIPPING_FROM_CENTS = 5000
SHIPPING_CENTS = 490


class Cart:
    def __init__(self, catalog):
        self._catalog = catalog
        self._quantities = {}

    def add(self, sku, quantity=1):
        product = self._catalog.get(sku)
        if quantity < 1:
            raise ValueError("quantity must be at least 1")
        wanted = self._quantities.get(sku, 0) + quantity
        if wanted > product.stock:
            raise ValueError(f"only {product.stock} of {sku} in stock")
        self._quantities[sku] = wanted

    def remove(self, sku):
        self._quantities.pop(sku, None)

    def lines(self):
        """(product, quantity) pairs in the order in which they were added."""
        return [(self._catalog.get(sku), quantity) for sku, quantity in self._quantities.items()]

    def is_empty(self):
        return not self._quantities

    def goods_cents(self):
        return sum(product.price_cents * quantity for product, quantity in self.lines())

    def shipping_cents(self):
        if self.is_empty() or self.goods_cents() >= FREE_SHIPPING_FROM_CENTS:
            return 0
        return SHIPPING_CENTS

    def total_cents(self):
        return self.goods_cents() + self.shipping_cents()
