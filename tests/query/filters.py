"""Filters and expressions, by what the reference implementation does with them."""

from __future__ import annotations

SAME = """
`s` = 'abc'
"s" = 'abc'
s = "abc"
`with space` = 1
MIXED = 1
`Mixed` = 1
st.a = 1
ST.a = 1
st['a'] = 1
st["a"] = 1
st.n.c = 'x'
st['n']['c'] = 'z'
`st`.`n`.`c` = 'x'
st.a is null
st.n.c is null
st.n is null
st is null
st is not null
lst is null
lst is not null
dur is null
i8 = 1
i8 == 1
i8 != 1
i8 <> 1
1 < i8
5 >= i8
i8 = -128
i64 = 9007199254740993
i64 > 9223372036854775807
u64 = 18446744073709551615
u64 > 9223372036854775807
u64 >= 9223372036854775808
i64 = u64
i8 = u64
i8 < u8
i64 < f64
i32 = f64
i64 = i32
i8 = id
i8 = cast(1.0 as double)
f32 = 0.1
f64 = 0.1
f32 = cast(0.1 as float)
f32 = f64
f64 = f64
f64 > 1
f64 >= 1
f64 < 1
f64 <= 1.5
f64 != 1.5
f64 = 0
f64 = -0.0
f64 < 0
f64 < -0.0
f64 != 0
f64 is null
isnan(f64)
not (f64 > 1)
f64 = cast('NaN' as double)
f64 != cast('NaN' as double)
f64 >= cast('NaN' as double)
f64 < cast('NaN' as double)
f64 > cast('Infinity' as double)
f32 <= f64
f32 > f64
f64 in (1.5, 2)
f64 in (0)
f64 not in (0.0, null)
f64 in (-2, cast('nan' as double))
f64 between 0 and 1
f64 = 9007199254740993
f32 > 1000000000000000000000000000000000000000000000.0
b
not b
b = true
b != true
b is true
b is false
b is not true
b is not false
b is null
b = null
b > false
b <= true
b in (true)
b = b
not not b
b and f64 > 1
b or i8 = 1
i8 = null
null = null
null is null
not null
null and true
i8 = 1 or i8 = null
i8 = 1 and i8 = null
not (i8 = null)
(i8 = null) is not true
(i8 = 1) is true
i8 = 1 or f64 is null
i8 = 1 = true
i8 in (1, null)
i8 not in (1, null)
i8 in (1, 5, 7)
i8 not in (1, 5)
i8 in (null)
null in (1)
1 in (i8, 5)
i8 in (id, 5)
i8 not in (id, 5)
s in ('abc', 'it''s')
s not in ('abc')
dict in ('x', 'z')
dict not in ('x', null)
d in (date '2013-01-02')
ts in (timestamp '2013-01-01 01:00:00')
i8 between 1 and 5
i8 not between 1 and 5
i8 between 5 and 1
i8 between null and 5
i8 not between null and 5
i8 is distinct from 1
i8 is not distinct from null
b is not distinct from null
s is distinct from 'abc'
s = ''
s < 'b'
s > 'a'
s >= 'abc' and s <= 'abd'
s > null
s = ls
ls = 'abc'
dict = 'x'
dict != 'x'
dict > 'x'
dict = s
dict between 'x' and 'y'
dict is null
s like 'a%'
s like 'a\\%c'
s like 'a\\_c'
s like 'a\\\\c'
s like 'a\\\\%'
s like 'a\\c'
s like '_bc'
s like '%bc'
s like '%b%'
s like 'a__'
s like 'a%c'
s like '%'
s like ''
s like 'ABC'
s like 'x%y'
s like 'x_y'
s like '%\\'
s not like 'a%'
s ilike 'A%'
s ilike 'aBc'
s ilike 'Ä%'
s not ilike 'A%'
s ilike '_BC'
s like null
s not like null
s like 'a%' escape '\\'
ls like 'a%'
dict like 'x%'
starts_with(s, 'a')
ends_with(s, 'c')
contains(s, 'b')
contains(s, null)
regexp_like(s, '^a.c$')
lower(s) = 'abc'
upper(s) = 'ÄBC'
length(s) = 3
char_length(ls) = 3
octet_length(s) = 4
s || 'x' = 'abcx'
s || null is null
concat(s, null) = 'abc'
concat(s, 'x', ls) = 'abcxabc'
btrim(s) = 'abc'
coalesce(i8, 0) = 0
coalesce(s, 'zz') = 'zz'
coalesce(i8, 1.5) = 1.5
nullif(i8, 1) is null
abs(f64) = 2
abs(-1) = 1
round(f64) = 2
round(i8) = 1
i8 + 1 = 2
i8 + i8 = 2
i8 + i8 < 0 and i8 > 0
i8 + 1 > 127
i8 * 2 > 200
i8 - 1 < -128
i32 + 1 > 0
i64 + 1 > 0
i64 - 1 < 0
i64 * 2 > 0
u8 - 10 < 0
u64 + 1 > 0
u64 - 1 > 0
i64 + u64 > 0
i8 + u8 = 2
i32 + f32 > 1
f32 + 0.1 > 1.6
i8 / 2 = 2
i8 / 2 = 2.5
i8 / 2.0 = 2.5
-7 / 2 = -3
-7 % 3 = -1
7.5 % 2 = 1.5
i8 % 2 = 1
i8 % -2 = 1
i8 % 3 = -2
i64 % -1 = 0
f64 % 2 = 1.5
f64 / 0 is null
-i8 = 2
-i64 > 0
-dec = 2.5
i8 + 1 * 2 = 3
(i8 + 1) * 2 = 4
i8 = -1 * -1
i8 + null = 1
dec = 1
dec > 1
dec < i8
dec between 1 and 6
dec + 1 = 2.25
dec * 2 = 2.5
dec / 2 = 0.625
dec / 3 = 0.416666
dec % 2 = 1
dec + 1.5 = 2.75
dec = cast('1.25' as decimal(10,2))
d = date '2013-01-02'
d < timestamp '2013-01-02 10:00:00'
d > timestamp '2013-01-02 10:00:00'
d = ts
ts > date '2013-01-01'
ts = timestamp '2013-01-01 01:00:00'
ts = timestamp(6) '2013-01-01 01:00:00'
ts = timestamp '2013-01-01T01:00:00Z'
ts >= timestamp '2013-01-01 01:00:00+01:00'
timestamp '2013-01-01' <= ts
ts = tss
ts - ts is null
tss > timestamp '2013-01-01 01:00:00.500'
tsz = timestamp '2013-01-01 01:00:00'
tsz = ts
tsz = tsny
tsz >= tsny
tsny = timestamp '2013-01-01 01:00:00'
tsny = ts
tsny > ts
bin = X'0001'
bin = x'00'
bin > X'0001'
bin in (X'00', X'0001')
fsb = X'6162'
cast(i8 as string) = '1'
cast(i8 as bigint) + 1 = 2
i8::bigint = 1
cast(i8 as double) = 1
cast(i8 as decimal(10,2)) = 1
cast(i8 as boolean)
cast(b as int) = 1
cast(b as string) = 'true'
cast(dec as string) = '1.25'
cast(dec as double) = 1.25
cast(dec as bigint) + 0 = 1
cast(dec as decimal(10,1)) + 0 = 1.3
cast(-1.9 as int) = -1
cast(d as string) = '2013-01-02'
cast(d as timestamp) = ts
cast(d as int) = 15706
cast(ts as date) = date '2013-01-01'
cast(tsny as date) = date '2013-01-01'
cast(tsny as timestamp) = timestamp '2013-01-01 01:00:00'
cast(ts as bigint) > 0
cast(ts as timestamp(3)) = ts
cast(dict as string) = 'x'
cast(s as binary) = X'616263'
cast(null as int) is null
true
false
1 = 1
1 = 1.0
1.5 = 1
'a' = 'a'
not i8 = 1
not i8 in (1)
i8 = 1 and s = 'abc' or true
not (i8 > 1 and b)
i8 = 1 -- a comment
i8 = 1 /* another */
""".replace("\\\\", "\\")

DIFFERENT = {
    # Constants that the column's type cannot hold: the reference refuses, here they compare as
    # the numbers they are.
    "i8 = 1.0": [0],
    "i8 < 1.5": [0, 1, 4, 9],
    "i8 < 1000": [0, 1, 3, 4, 5, 6, 7, 8, 9],
    "i8 in (1, 1000, 5.5)": [0],
    "u64 > -1": [0, 1, 3, 4, 5, 6, 7, 8, 9],
    "i64 < 9223372036854775808": [0, 1, 3, 4, 5, 6, 7, 8, 9],
    "dec = 1.25": [0],
    "dec > 1.251": [3, 6, 7, 9],
    # Strings compared with dates and times: refused there.
    "d = '2013-01-02'": [1],
    "d between '2013-01-02' and '2013-01-04'": [1, 3],
    "ts > '2013-01-01 05:00:00'": [6, 7, 8, 9],
    "tsny = '2013-01-01T06:00:00Z'": [6],
    "t >= '08:00'": [8, 9],
    # The reference cuts the constant to seconds first, so that 01:00:00 equals 01:00:00.500.
    "tss < timestamp '2013-01-01 01:00:00.500'": [0, 1],
    "tss = timestamp '2013-01-01 01:00:00.500'": [],
    # An offset in a constant is kept; the reference reads the UTC time as one of the column's zone.
    "tsny = timestamp '2013-01-01T06:00:00Z'": [6],
    # Zeros are equal and NaN has no sign; the reference orders computed -0.0 and -NaN below.
    "f64 = -f64": [3, 5, 6],
    "- f64 < 0": [0, 4, 7, 9],
    "f64 / 0 > 1": [0, 3, 4, 5, 6, 7, 9],
    # The reference compares the decimal with 1 instead of cutting its fraction.
    "cast(dec as int) = 1": [0, 5],
    # The least number is read as minus a number that is too great.
    "i64 = -9223372036854775808": [4],
    # Refused there for no reason that concerns the result.
    "i8 = +1": [0],
    "s like 'a!%c' escape '!'": [3],
    "trim(s) = 'abc'": [0],
    "floor(f64) = 1": [0],
    "cast(i8 as varchar) = '1'": [0],
}

REFUSED_ONLY_HERE = (
    "i8 = 1 i8",
    "i8 = 1; drop table x",
    "1 = '1'",
    "st = st",
    "lst = lst",
    "bin = s",
    "s like s",
    "cast(ts as string) = '2013-01-01T00:00:00'",
    "cast(i64 as tinyint) = 1",
)

REFUSED_BY_BOTH = """
nope = 1
st.zzz = 1
`mixed` = 1
`st.a` = 1
with space = 1
"with space" = 1
i8 = 'abc'
i8 = '1'
s < 5
5 = s
s in ('abc', 5)
b = 1
b = 'true'
b < i8
i8 = true
i8 and true
not i8
i8 is true
s + 1 = 2
s + s = 'a'
lst = 1
d = 'garbage'
d = 15706
date '2013-13-01' = d
ts > 5
bin = 'a'
i8 like '1%'
d like '2013%'
null
1
'a'
i8
i8 in ()
s similar to 'a%'
-u8 = -1
i8 / 0 = 1
i8 % 0 = 1
1 / 0 = 1
i8 / (i8 - 1) = 1
dec / 0 = 1
i64 / -1 = 1
abs(i8) = 2
cast(s as int) = 1
cast(1000 as tinyint) = 1
nosuch(i8) = 1
upper(i8) = '1'
(select 1) = 1
i8 in (select 1)
exists (select 1)
i8 =
= 1
i8 = 1 and
(i8 = 1
s = 'abc
i8 & 1 = 1
case when b then true else false end
interval '1 day' = dur
"""

EXPRESSIONS = """
i8
st.a
dict
lst
i8 + 1
i8 + i8
i8 - u8
i64 * 3
u64 + 1
i64 + u64
i8 / 2
f32 + 1
f32 + 0.1
i32 + f32
f64 * 2
dec + 1
dec + dec
dec * dec
dec / 2
dec + f64
-i8
-dec
i8 = 1
i8 in (1, null)
s || 'x'
s || ls
upper(s)
length(s)
length(ls)
octet_length(s)
coalesce(i8, 1)
coalesce(i8, 1.5)
round(f32)
round(i8)
ts - ts
cast(i8 as float)
cast(i8 as string)
cast(tsny as date)
cast(tsny as timestamp)
cast(ts as date)
b and i8 = 1
"""
