-- Tests `tlua port` on whole programs. Each program must print the same text in Python and after translation to Lua.

local port = require "spec.support.port"
local shell = require "spec.support.shell"
local tlua = shell.start(true)

local function same(text)
   local expected, got = port.outputs(text)
   assert.equal(expected, got)
end

describe("a ported program", function()
   if not port.python then
      pending("no Python of version 3.8 or later")
      return
   end

   it("has Python's classes, properties and functions", function()
      same [==[
class Shape:
    sides = 0

    def __init__(self, name, *args, scale=1.0):
        self.name = name
        self.scale = scale
        self.rest = list(args)

    def area(self):
        return 0

    @property
    def label(self):
        return f"{self.name}:{self.area():.2f}"

    @staticmethod
    def twice(x):
        return 2 * x

    def __repr__(self):
        return "Shape(" + self.name + ")"


class Square(Shape):
    sides = 4

    def __init__(self, a):
        super().__init__("square")
        self.a = a

    def area(self):
        return self.a ** 2 * self.scale


def swap(a, b=2):
    return b, a

def total(*values, start=0):
    result = start
    for v in values:
        result += v
    return result

def squares(n):
    for i in range(n):
        yield i * i

def outer():
    count = 0
    def inner():
        nonlocal count
        count += 1
        return count
    inner()
    return inner()

s = Square(3)
print(s.label, s.sides, Shape.twice(4))
print(s)
x, y = swap(1)
print(x, y)
pair = swap(5, b=7)
print(pair[0] + pair[1], total(1, 2, 3), outer())
print(list(squares(4)))
f = lambda q, r=3: q * r
print(f(2), f(2, 5))
for n in squares(3):
    print(n)
]==]
   end)

   it("has Python's lists, dicts and texts", function()
      same [==[
import math
from collections import Counter
xs = [i * i for i in range(6) if i % 2 == 0]
print(xs, len(xs), xs[-1], xs[1:], xs[::-1])
print(sum(xs), max(xs), min(xs), sorted(xs, reverse=True))
d = {"a": 1, "b": 2}
d["c"] = 3
for k in sorted(d):
    print(k, d[k])
for k, v in sorted(d.items()):
    print("%s=%d" % (k, v))
print("a" in d, "z" not in d, d.get("z", 9), len(d))
text = "hello world foo"
print(text.split(), text.upper(), text.replace("o", "0"), text.find("wor"))
print(text[0], text[-3:], text[1:4], text.startswith("he"), text.endswith("x"))
print("a.b.c".rsplit(".", 1), " a b  c ".split(None, 1), " a b  c ".rsplit(None, 1), "-12".zfill(5), "7".zfill(3))
print(", ".join(str(i) for i in xs))
print("{:>6}|{:<6}|{:^6}|{:06.2f}|{:,}|{:.1%}".format("ab", "cd", "ef", 3.14159, 1234567, 0.256))
c = Counter("abracadabra")
print(c["a"], c["z"])
matrix = [[1, 2], [3, 4]]
for row in matrix:
    for j in range(len(row)):
        row[j] += 10
print(matrix, [r[0] for r in matrix])
stack = [1, 2, 3]
stack.pop()
stack.insert(0, 9)
stack.extend([4, 5])
print(stack, 9 in stack, stack.index(4))
del stack[0]
print(stack == [1, 2, 4, 5])
first, *rest = stack
print(first, rest)
t = (1, "two", 3.0)
print(t[1], isinstance(t, tuple), isinstance(3, int), isinstance("s", str))
print(any(v > 2 for v in xs), all(v > 2 for v in xs))
print(math.sqrt(16), math.floor(2.7), int("12") + 1, float("1.5"), round(2.5), abs(-3))
]==]
   end)

   it("has Python's loops, conditions and numbers", function()
      same [==[
words = "one two three".split(" ")
for i, w in enumerate(words):
    if i == 1:
        continue
    print(i, w)
for i, w in enumerate(words, 1):
    print(i, w)
n = 0
while True:
    n += 1
    if n > 4:
        break
print(n, 7 // 2, -7 // 2, 7 % 3, -7 % 3, 2 ** 10, 7 / 2)
print(1 < n <= 5, not n, n and 3)
try:
    raise ValueError("bad thing")
except ValueError as e:
    print("caught")
for a, b in zip([1, 2, 3], ["x", "y"]):
    print(a, b)
flag = None
if flag is None:
    flag = False
print(0 if flag else 5, "yes" if n > 3 else "no")
empty = []
if not empty:
    print("empty")
for i in range(3):
    for j in range(3):
        if j == 2:
            break
    else:
        print("never")
print(i, j)
for i in range(10, 0, -4):
    print(i)
total = 0
for i in range(5):
    try:
        if i == 2:
            raise RuntimeError("two")
        total += i
    except RuntimeError:
        total += 100
    finally:
        total += 1000
print(total)
]==]
   end)

   it("reads its command line", function()
      same [==[
import argparse
parser = argparse.ArgumentParser(description="Shows options.")
parser.add_argument("--lr", type=float, default=0.5, help="rate")
parser.add_argument("--batch-size", type=int, default=3)
parser.add_argument("--name", default="x", choices=["x", "y"])
parser.add_argument("--limit", type=int)
parser.add_argument("--quiet", action="store_true")
args = parser.parse_args()
if args.limit is None and not args.quiet:
    print(args.lr, args.batch_size, args.name)
]==]
   end)

   it("imports a file beside it that was ported, too", shell.in_folder(function(folder)
      shell.write(folder .. "/shapes.py", [[
import math

PI = math.pi

class Circle:
    def __init__(self, r=1):
        self.r = r

    def area(self):
        return PI * self.r ** 2

def unit():
    return Circle()
]])
      shell.write(folder .. "/main.py", [[
import shapes
from shapes import Circle
print(f"{shapes.unit().area():.3f} {Circle(r=2).area():.3f}")
]])
      local output = shell.ok(([[cd %s && %s port shapes.py -o shapes.lua && %s port main.py -o main.lua
            %s main.lua]]):format(shell.quote(folder), tlua, tlua, tlua))
      assert.matches("3.142 12.566", output, 1, true)
      assert.matches("shapes is imported", output, 1, true)
   end))
end)
