from .kloft import (
    kloft_3 as kloft_3,
    kloft_3_5 as kloft_3_5,
    kloft_4 as kloft_4,
    kloft_8 as kloft_8,
    kloft_10 as kloft_10,
    kloft_12 as kloft_12,
    kloft_13 as kloft_13,
    kloft_14 as kloft_14,
    kloft_15 as kloft_15,
    kloft_16 as kloft_16,
    kloft_D as kloft_D,
    kloft_P as kloft_P,
)
from .kloft_section_4 import (
    kloft_17 as kloft_17,
    kloft_27 as kloft_27,
    kloft_28 as kloft_28,
    kloft_30 as kloft_30,
    kloft_31 as kloft_31,
    kloft_sip as kloft_sip,
)
from .others import kowalski_2 as kowalski_2, kowalski_2_dual as kowalski_2_dual, lanckriet_sdp as lanckriet_sdp
from .simplemkl import (
    simplemkl_2 as simplemkl_2,
    simplemkl_3 as simplemkl_3,
    simplemkl_8 as simplemkl_8,
    simplemkl_16 as simplemkl_16,
    simplemkl_17 as simplemkl_17,
    simplemkl_18 as simplemkl_18,
    simplemkl_19 as simplemkl_19,
    simplemkl_22 as simplemkl_22,
    simplemkl_silp as simplemkl_silp,
)
from .szafranski import (
    szafranski_6 as szafranski_6,
    szafranski_6_cap as szafranski_6_cap,
    szafranski_7 as szafranski_7,
    szafranski_8 as szafranski_8,
    szafranski_9 as szafranski_9,
    szafranski_10_11 as szafranski_10_11,
)
from .tomioka import (
    tomioka_3 as tomioka_3,
    tomioka_4 as tomioka_4,
    tomioka_5 as tomioka_5,
    tomioka_6 as tomioka_6,
    tomioka_7 as tomioka_7,
    tomioka_8 as tomioka_8,
    tomioka_9 as tomioka_9,
    tomioka_10 as tomioka_10,
    tomioka_11 as tomioka_11,
    tomioka_12 as tomioka_12,
    tomioka_13 as tomioka_13,
)
