import unittest

from shop.app import App, load_settings
from shop.catalog import Catalog, format_price


class CatalogTest(unittest.TestCase):
    def setUp(self):
        self.catalog = Catalog()

    def test_search_wants_every_word(self):
        self.assertEqual([p.sku for p in self.catalog.search("tea 100")], ["TEA-BLK", "TEA-GRN"])
        self.assertEqual([p.sku for p in self.catalog.search("green tea")], ["TEA-GRN"])

    def test_what_is_sold_out_is_not_available(self):
        self.assertNotIn("TIN-RED", [p.sku for p in self.catalog.available()])

    def test_prices_have_two_decimals(self):
        self.assertEqual(format_price(905), "9.05")


class AppTest(unittest.TestCase):
    def test_a_product_is_served_by_sku(self):
        status, answer = App().handle("GET", "/products/POT-CLY", {})
        self.assertEqual((status, answer["price"]), ("200 OK", "34.50"))

    def test_an_unknown_product_is_not_found(self):
        status, _ = App().handle("GET", "/products/NOPE", {})
        self.assertEqual(status, "404 Not Found")

    def test_the_settings_name_a_port(self):
        self.assertEqual(load_settings()["port"], "8000")


if __name__ == "__main__":
    unittest.main()
