"""Oracle's regions: what their short names stand for, and where their services are."""

from __future__ import annotations

import os

_REGIONS = """
oraclecloud.com: yny=ap-chuncheon-1 hyd=ap-hyderabad-1 mel=ap-melbourne-1 bom=ap-mumbai-1 kix=ap-osaka-1
    icn=ap-seoul-1 syd=ap-sydney-1 nrt=ap-tokyo-1 yul=ca-montreal-1 yyz=ca-toronto-1 ams=eu-amsterdam-1
    fra=eu-frankfurt-1 zrh=eu-zurich-1 jed=me-jeddah-1 dxb=me-dubai-1 gru=sa-saopaulo-1 cwl=uk-cardiff-1
    lhr=uk-london-1 iad=us-ashburn-1 phx=us-phoenix-1 sjc=us-sanjose-1 vcp=sa-vinhedo-1 scl=sa-santiago-1
    mtz=il-jerusalem-1 mrs=eu-marseille-1 sin=ap-singapore-1 auh=me-abudhabi-1 lin=eu-milan-1 arn=eu-stockholm-1
    jnb=af-johannesburg-1 cdg=eu-paris-1 qro=mx-queretaro-1 mad=eu-madrid-1 ord=us-chicago-1 mty=mx-monterrey-1
    aga=us-saltlake-2 bog=sa-bogota-1 vap=sa-valparaiso-1 xsp=ap-singapore-2 ruh=me-riyadh-1 onm=ap-delhi-1
    hsg=ap-batam-1 orf=eu-madrid-3 nrq=eu-turin-1 jbp=ap-kulai-2 lej=af-casablanca-1
oraclegovcloud.com: lfi=us-langley-1 luf=us-luke-1 ric=us-gov-ashburn-1 pia=us-gov-chicago-1 tus=us-gov-phoenix-1
oraclegovcloud.uk: ltn=uk-gov-london-1 brs=uk-gov-cardiff-1
oraclecloud8.com: nja=ap-chiyoda-1 ukb=ap-ibaraki-1
oraclecloud9.com: mct=me-dcc-muscat-1 ibr=me-ibri-1
oraclecloud10.com: wga=ap-dcc-canberra-1
oraclecloud14.com: bgy=eu-dcc-milan-1 mxp=eu-dcc-milan-2 snn=eu-dcc-dublin-2 dtm=eu-dcc-rating-2 dus=eu-dcc-rating-1
    ork=eu-dcc-dublin-1
oraclecloud15.com: dac=ap-dcc-gazipur-1
oraclecloud.eu: vll=eu-madrid-2 str=eu-frankfurt-2
oraclecloud20.com: beg=eu-jovanovac-1
oraclecloud21.com: doh=me-dcc-doha-1 vve=me-alrayyan-1
oraclecloud23.com: ebb=us-somerset-1 ebl=us-thames-1
oraclecloud24.com: avz=eu-dcc-zurich-1 avf=eu-crissier-1
oraclecloud26.com: ahu=me-abudhabi-3 rba=me-alain-1
oraclecloud29.com: rkt=me-abudhabi-2 shj=me-abudhabi-4
oraclecloud35.com: dtz=ap-seoul-2 dln=ap-suwon-1 bno=ap-chuncheon-2
oraclecloud42.com: yxj=us-ashburn-2 pgc=us-newark-1
oraclecloud51.com: jsk=eu-budapest-1
oraclecloud52.com: hnw=sa-riodejaneiro-1
"""
"""By the domain of their realm. Regions that came later are taken for ones of the first realm, as the SDK does."""
_FIRST = "oraclecloud.com"


def in_full(region: str) -> str:
    """Of `iad` and `us-ashburn-1` the latter."""
    return _by_short_name().get(region.lower(), region.lower())


_PLAIN = ("objectstorage", "iaas")
"""Services from before `oci` stood in the names of hosts."""


def service_host(service: str, region: str) -> str:
    """`objectstorage.us-ashburn-1.oraclecloud.com`, for example: object storage has no `oci` before the domain."""
    domain = _domains().get(region) or os.environ.get("OCI_DEFAULT_REALM") or _FIRST
    return f"{service}.{region}.{'' if service in _PLAIN else 'oci.'}{domain}"


def _rows() -> list[tuple[str, list[str]]]:
    rows: list[tuple[str, list[str]]] = []
    for word in _REGIONS.split():
        if word.endswith(":"):
            rows.append((word[:-1], []))
        else:
            rows[-1][1].append(word)
    return rows


def _by_short_name() -> dict[str, str]:
    pairs = (word.partition("=") for _, words in _rows() for word in words)
    return {short: region for short, _, region in pairs}


def _domains() -> dict[str, str]:
    return {word.partition("=")[2]: domain for domain, words in _rows() for word in words}
