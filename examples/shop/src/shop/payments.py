"""The payment gateway. This one accepts every card that is not blocked and moves no money."""

import hashlib
import hmac
import os


class PaymentRefused(Exception):
    pass


class Gateway:
    def __init__(self, token=None, blocked=("0000",)):
        self._token = token if token is not None else os.environ.get("SHOP_PAYMENT_TOKEN", "")
        self._blocked = set(blocked)

    def charge(self, card, amount_cents, reference):
        """Charges the card and returns a receipt number."""
        if not self._token:
            raise PaymentRefused("no payment token: set SHOP_PAYMENT_TOKEN")
        if card[-4:] in self._blocked:
            raise PaymentRefused("card is blocked")
        text = f"{reference}:{card[-4:]}:{amount_cents}"
        return hmac.new(self._token.encode(), text.encode(), hashlib.sha256).hexdigest()[:16]
