"""The shop over HTTP, on the standard library alone. Start it with `make run`."""

import json
import os
import pathlib
from wsgiref.simple_server import make_server

from shop.cart import Cart
from shop.catalog import Catalog, format_price
from shop.orders import OrderBook
from shop.payments import Gateway, PaymentRefused

SETTINGS = pathlib.Path(__file__).parents[2] / "config" / "settings.yaml"


def load_settings(path=SETTINGS):
    """Reads `key: value` lines; that is all of YAML this project uses."""
    settings = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            key, _, value = line.partition(":")
            settings[key.strip()] = value.strip()
    return settings


class App:
    def __init__(self, catalog=None, orders=None):
        self.catalog = catalog or Catalog()
        self.orders = orders or OrderBook(Gateway())

    def __call__(self, environ, start_response):
        status, answer = self.handle(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ)
        body = json.dumps(answer).encode()
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    def handle(self, method, path, environ):
        if method == "GET" and path == "/products":
            return "200 OK", [self.describe(product) for product in self.catalog.available()]
        if method == "GET" and path.startswith("/products/"):
            try:
                return "200 OK", self.describe(self.catalog.get(path.removeprefix("/products/")))
            except KeyError:
                return "404 Not Found", {"error": "no such product"}
        if method == "POST" and path == "/orders":
            return self.place_order(environ)
        return "404 Not Found", {"error": "no such page"}

    def place_order(self, environ):
        try:
            length = int(environ.get("CONTENT_LENGTH") or 0)
            request = json.loads(environ["wsgi.input"].read(length))
            cart = Cart(self.catalog)
            for line in request["lines"]:
                cart.add(line["sku"], line["quantity"])
            order = self.orders.place(cart, request["card"])
        except PaymentRefused as error:
            return "402 Payment Required", {"error": str(error)}
        except (KeyError, TypeError, ValueError) as error:
            return "400 Bad Request", {"error": str(error)}
        return "201 Created", {"number": order.number, "total": format_price(order.total_cents), "receipt": order.receipt}

    @staticmethod
    def describe(product):
        return {"sku": product.sku, "name": product.name, "price": format_price(product.price_cents), "stock": product.stock}


def main():
    settings = load_settings(os.environ.get("SHOP_SETTINGS", SETTINGS))
    with make_server(settings["host"], int(settings["port"]), App()) as server:
        print(f"listening on http://{settings['host']}:{settings['port']}/products")
        server.serve_forever()


if __name__ == "__main__":
    main()
