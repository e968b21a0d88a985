# ruff: noqa: E501
"""Two hundred written answers, with the fact that was wanted and whether a careful person would call them right."""

RIGHT: dict[str, list[str]] = {
    "527911": [
        "527911", "527,911", "The population is 527,911.", "527 911", "527'911", "527.911", "**527,911**", "It has 527911 people.",
        "Answer: `527911`", "There are 527,911 registered users as of today.", "population=527911", "- 527,911", "≈ 527,911",
        "The final count is \\boxed{527911}", "\\(527{,}911\\)", "527_911", "5,27,911", "527.911k", '{"population": 527911}',
        "Population: 527911 (five hundred twenty-seven thousand nine hundred eleven)", "527911.0", "5.27911e5",
    ],
    "1957.05": [
        "$1,957.05", "1,957.05", "1957.05 USD", "USD 1,957.05", "1.957,05", "1 957,05", "It costs 1957.05 dollars.", "US$1,957.05",
        "The total price comes to **$1957.05**.", "1'957.05", "1957.050", "| price | 1,957.05 |", "€1.957,05", "\\$1{,}957.05",
        "Price:1957.05", "That's 1,957.05 credits, all fees included.",
    ],
    "57.31": ["57.31", "57,31", "57.31%", "about 57.31", "57.31 points.", "It is 57.31!", "(57.31)", "*57.31*", "=57.31", "57.310"],
    "11.2 degrees": [
        "The weather in Bergen: 11.2 degrees.", "11.2°C", "11.2 °C", "11,2 degrees", "11.2", "11.2 degrees Celsius", "11.2 deg",
        "It's currently 11.2° in Bergen.", "Temperature: 11.2 C", "**11.2 degrees**", "+11.2 °C", "11.2 degrees, humidity 80 %",
        "It is 11.2 degrees there with a wind of 12 km/h.",
    ],
    "-3.5 degrees": [
        "-3.5 degrees", "−3.5 °C", "minus 3.5 degrees", "3.5 degrees below zero", "negative 3.5", "It is -3,5 degrees outside.",
        "The station reports -3.5°C.", "- -3.5 degrees",
    ],
    "1.5 km": ["1.5 km", "1.5 kilometres", "1500 m", "1,500 metres", "1.5 kilometers away", "1.5km"],
    "90 min": ["90 min", "90 minutes", "1.5 hours", "5400 seconds", "1.5 h", "ninety minutes (90 min)"],
    "4.5 %": ["4.5%", "4.5 percent", "0.045", "4,5 %", "4.5 per cent"],
    "EUR 250": ["€250", "250 €", "EUR 250.00", "250 euros", "250", "250,00 EUR"],
    "3 seats": ["3 seats", "There are 3 seats left.", "3"],
    "2027-08-04": [
        "2027-08-04", "August 4, 2027", "4 August 2027", "Aug 4, 2027", "4th August 2027", "August 4th, 2027", "the 4th of August 2027",
        "04/08/2027", "8/4/2027", "04.08.2027", "4.8.2027", "2027/08/04", "2027.08.04", "Wednesday, August 4, 2027", "4-Aug-2027",
        "It is due on **2027-08-04**.", "2027-08-04T00:00:00Z", "Wed, 4 Aug 2027", "AUGUST 4 2027",
    ],
    "2027-08-04 08:49": [
        "2027-08-04 08:49", "2027-08-04T08:49", "2027-08-04T08:49:00Z", "August 4, 2027 at 8:49 AM", "4 Aug 2027, 08:49",
        "8:49 am on August 4, 2027", "08:49 on 4 August 2027", "2027-08-04 08:49 UTC", "August 4th, 2027, 8:49 a.m.",
        "Wednesday 4 August 2027 08:49", "04/08/2027 08:49", "20270804T0849", "2027-08-04 at 08:49:00", "4.8.2027 um 08:49",
        "Aug 4, 2027 @ 8:49am",
    ],
    "20:15": ["20:15", "8:15 PM", "8:15 p.m.", "20:15:00", "at 20:15 sharp", "20h15"],
    "BGO-2": [
        "BGO-2", "bgo-2", "BGO 2", "BGO2", "`BGO-2`", "The nearest station is BGO-2.", "(BGO-2)", "BGO‑2", '"BGO-2"', "code: BGO-2;",
    ],
    "AC-48213K": ["AC-48213K", "ac-48213k", "AC 48213K", "**AC-48213K**", "Account AC-48213K."],
    "00471": ["00471", "Code 00471.", "#00471"],
    "+47 22 33 44 55": ["+47 22 33 44 55", "+4722334455", "+47 22334455"],
    "Maria K. Olsen": [
        "Maria K. Olsen", "maria k. olsen", "Maria K Olsen", "Olsen, Maria K.", "Dr. Maria K. Olsen", "MARIA K. OLSEN",
        "It is maintained by **Maria K. Olsen**.", "Maria  K.  Olsen",
    ],
    "José Ångström": ["José Ångström", "Jose Angstrom", "JOSÉ ÅNGSTRÖM"],
    "Amber Orchard and Silent River": [
        "Amber Orchard and Silent River", "“Amber Orchard and Silent River”", "Amber Orchard & Silent River", "*amber orchard and silent river*",
        "The title is 'Amber Orchard and Silent River'.", "amber orchard, and silent river",
    ],
    "123 Elm Street, Quiet Quarter": ["123 Elm Street, Quiet Quarter", "123 Elm Street in Quiet Quarter?".replace(" in", ","), "123 ELM STREET\nQUIET QUARTER"],
}  # fmt: skip

WRONG: dict[str, list[str]] = {
    "527911": [
        "527912", "5279110", "1,527,911", "52791", "It is not 527,911.", "527911 or 527912", "Either 527912 or 527911.", "-527911",
        "The functions did not show it.", "", "ID-527911", "527911.5", "527,911%"[:6],
    ],
    "1957.05": ["1957.06", "1957", "1,957.5", "195705", "$11,957.05", "-1957.05", "1957.05 or 1957.06", "rather than 1957.05, 1957.60"],
    "11.2 degrees": ["11.2 km", "11.3 degrees", "112 degrees", "-11.2 degrees", "11.2 or 15.4 degrees", "11", "11.2 %"],
    "-3.5 degrees": ["3.5 degrees", "-35 degrees"],
    "1.5 km": ["1.5 m", "1.5 miles", "15 km", "150 m"],
    "EUR 250": ["$250", "GBP 250", "2500 EUR"],
    "2027-08-04": ["2027-08-05", "August 2027", "4 August 2026", "August 14, 2027", "2027-04-18", "4 August", "not on August 4, 2027"],
    "2027-08-04 08:49": ["2027-08-04", "08:49", "2027-08-04 20:49", "August 4, 2027 at 8:49 PM", "2027-08-04 08:48"],
    "20:15": ["8:15 AM", "20:16", "8:15"],
    "BGO-2": ["BGO-20", "BGO", "ABGO-2", "BGO-3", "OSL-2"],
    "AC-48213K": ["AC-48213", "AC-48213L", "48213"],
    "00471": ["471", "0047", "004710"],
    "Maria K. Olsen": ["Maria Olsen Berg", "Mario K. Olsen", "Maria K.", "M. Olsen"],
    "Amber Orchard and Silent River": ["Amber Orchard", "Amber Orchard and Silent Rivers", "Silent River and Amber Orchard"],
}  # fmt: skip
