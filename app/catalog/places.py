"""Names of countries and areas, used to find regions that each provider names differently."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# ISO 3166 codes of countries and their names, in lower case without separators.
COUNTRIES: Mapping[str, str] = MappingProxyType(
    {
        "AE": "uae unitedarabemirates",
        "AT": "austria",
        "AU": "australia",
        "BE": "belgium",
        "BH": "bahrain",
        "BR": "brazil",
        "CA": "canada",
        "CH": "switzerland",
        "CZ": "czechia",
        "DE": "germany deutschland",
        "DK": "denmark",
        "ES": "spain",
        "FI": "finland",
        "FR": "france",
        "GB": "uk unitedkingdom greatbritain england britain",
        "HK": "hongkong",
        "ID": "indonesia",
        "IE": "ireland",
        "IL": "israel",
        "IN": "india",
        "IS": "iceland",
        "IT": "italy",
        "JP": "japan",
        "KR": "korea southkorea",
        "MX": "mexico",
        "MY": "malaysia",
        "NL": "netherlands holland",
        "NO": "norway",
        "NZ": "newzealand",
        "PL": "poland",
        "PT": "portugal",
        "QA": "qatar",
        "RO": "romania",
        "SA": "saudiarabia",
        "SE": "sweden",
        "SG": "singapore",
        "TW": "taiwan",
        "US": "usa unitedstates america unitedstatesofamerica",
        "ZA": "southafrica",
    }
)
# Members of the European Union with data centers that rent out machines, or may.
EU = "AT BE CZ DE DK ES FI FR IE IT NL PL PT RO SE"
AREAS: Mapping[str, str] = MappingProxyType(
    {
        "eu": EU,
        "europeanunion": EU,
        "europe": f"{EU} CH GB IS NO",
        "northamerica": "CA MX US",
        "apac": "AU HK ID IN JP KR MY NZ SG TW",
        "asia": "HK ID IN JP KR MY SG TW",
        "middleeast": "AE BH IL QA SA",
    }
)


def countries_named(key: str) -> frozenset[str]:
    """Returns the ISO codes of a country or area. `key` is its name in lower case without separators; unknown names
    give none.

    Check: "eu" contains DE and FR; "uk" is GB; "us" is US.
    """
    if key in AREAS:
        return frozenset(AREAS[key].split())
    return frozenset(code for code, names in COUNTRIES.items() if key == code.lower() or key in names.split())
