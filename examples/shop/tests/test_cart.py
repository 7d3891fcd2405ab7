import unittest

from shop.cart import SHIPPING_CENTS, Cart
from shop.catalog import Catalog
from shop.orders import OrderBook
from shop.payments import Gateway, PaymentRefused


class CartTest(unittest.TestCase):
    def setUp(self):
        self.cart = Cart(Catalog())

    def test_an_empty_cart_costs_nothing(self):
        self.assertEqual(self.cart.total_cents(), 0)

    def test_a_small_cart_pays_shipping(self):
        self.cart.add("TEA-GRN", 2)
        self.assertEqual(self.cart.total_cents(), 2 * 780 + SHIPPING_CENTS)

    def test_a_large_cart_ships_free(self):
        self.cart.add("POT-CLY", 2)
        self.assertEqual(self.cart.total_cents(), 2 * 3450)

    def test_no_more_than_the_stock_can_be_added(self):
        self.cart.add("POT-CLY", 7)
        with self.assertRaises(ValueError):
            self.cart.add("POT-CLY")

    def test_removing_a_line_takes_all_of_it(self):
        self.cart.add("CUP-SML", 3)
        self.cart.remove("CUP-SML")
        self.assertTrue(self.cart.is_empty())


class OrderTest(unittest.TestCase):
    def setUp(self):
        self.cart = Cart(Catalog())
        self.cart.add("CUP-SML", 2)
        self.orders = OrderBook(Gateway(token="test"))

    def test_a_paid_order_is_booked(self):
        order = self.orders.place(self.cart, "4111 1111 1111 1111")
        self.assertEqual(self.orders.get(order.number), order)

    def test_a_refused_payment_books_nothing(self):
        with self.assertRaises(PaymentRefused):
            self.orders.place(self.cart, "4111 1111 1111 0000")
        with self.assertRaises(KeyError):
            self.orders.get(1000)


if __name__ == "__main__":
    unittest.main()
