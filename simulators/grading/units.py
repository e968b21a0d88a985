"""Units and currencies as people write them: what each measures, and its size in the quantity's base unit."""

from functools import cache

_UNITS: dict[str, dict[str, tuple[float, str]]] = {
    # quantity: {unit: (size in the base unit, the ways to write it)}
    "length": {
        "m": (1.0, "m metre metres meter meters"),
        "km": (1000.0, "km kms kilometre kilometres kilometer kilometers"),
        "cm": (0.01, "cm centimetre centimetres centimeter centimeters"),
        "mm": (0.001, "mm millimetre millimetres millimeter millimeters"),
        "mi": (1609.344, "mi mile miles"),
        "ft": (0.3048, "ft foot feet"),
    },
    "time": {
        "s": (1.0, "s sec secs second seconds"),
        "ms": (0.001, "ms millisecond milliseconds"),
        "min": (60.0, "min mins minute minutes"),
        "h": (3600.0, "h hr hrs hour hours"),
        "d": (86400.0, "d day days"),
    },
    "mass": {
        "kg": (1.0, "kg kgs kilogram kilograms kilogramme kilogrammes"),
        "g": (0.001, "g gram grams gramme grammes"),
        "t": (1000.0, "tonne tonnes"),
        "lb": (0.45359237, "lb lbs pound-mass"),
    },
    "data": {
        "MB": (1.0, "mb megabyte megabytes"),
        "GB": (1000.0, "gb gigabyte gigabytes"),
        "kB": (0.001, "kb kilobyte kilobytes"),
    },
    "speed": {
        "m/s": (1.0, "m/s"),
        "km/h": (1 / 3.6, "km/h kmh kph kmph"),
        "mph": (0.44704, "mph"),
        "kn": (0.514444, "kn knot knots"),
    },
    "power": {"W": (1.0, "w watt watts"), "kW": (1000.0, "kw kilowatt kilowatts")},
    # a temperature has an offset and a currency has a rate, so nothing is converted; "degrees" fits either scale
    "temperature": {
        "deg": (1.0, "° deg degs degree degrees"),
        "C": (1.0, "°c ℃ celsius centigrade c degrees-celsius degrees-c degree-celsius deg-c degc"),
        "F": (1.0, "°f ℉ fahrenheit degrees-fahrenheit degrees-f degree-fahrenheit deg-f degf"),
    },
    "money": {
        "USD": (1.0, "$ usd us$ dollar dollars us-dollars"),
        "EUR": (1.0, "€ eur euro euros"),
        "GBP": (1.0, "£ gbp pound pounds sterling"),
        "NOK": (1.0, "nok kr kroner"),
        "JPY": (1.0, "¥ jpy yen"),
        "CHF": (1.0, "chf francs"),
        "INR": (1.0, "₹ inr rupees rupee"),
        "credits": (1.0, "credit credits"),
    },
    "share": {"%": (1.0, "% percent per-cent pct")},
}
EXACT = frozenset({"temperature", "money"})  # quantities in which units are compared and not converted


@cache
def _spellings() -> dict[str, tuple[str, str, float]]:
    return {
        written: (quantity, unit, size)
        for quantity, units in _UNITS.items()
        for unit, (size, spellings) in units.items()
        for written in spellings.split()
    }


def unit_of(written: str) -> tuple[str, str, float] | None:
    """The quantity, the unit and its size of a written unit; None where it is not a unit that is known."""
    return _spellings().get("-".join(written.casefold().split()))


def may_be(one: str, other: str) -> bool:
    """Return whether two units of a quantity whose units are not converted can mean the same."""
    return one == other or ({one, other} != {"C", "F"} and "deg" in (one, other))
