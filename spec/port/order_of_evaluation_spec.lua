-- Tests `tlua port` on lines of Python whose closest equivalent in Lua has a different meaning. Either the program
-- prints the same text in Python and after translation, or a note says what the user must still change.

local port = require "spec.support.port"

local function same(text)
   local expected, got = port.outputs(text)
   assert.equal(expected, got)
end

-- Returns whether the translation of a program has a note that contains the text `part`.
local function noted(text, part)
   for _, note in ipairs(port.translate({text})[1].notes) do
      if note.text:find(part, 1, true) then return true end
   end
   return false
end

describe("a translation", function()
   if not port.python then
      pending("no Python of version 3.8 or later")
      return
   end

   it("assigns to targets one after the other if they use each other", function()
      same [==[
xs = [0, 0, 0]
i = 0
i, xs[i] = 1, 9
print(i, xs[0], xs[1])
j, k = 1, 2
j, k = k, j
xs[0], xs[2] = xs[2], xs[0]
print(j, k, xs[0], xs[1], xs[2])
]==]
   end)

   it("counts from the end where a difference is below 0", function()
      same [==[
xs = [1, 2, 3, 4]
out = []
for i in range(4):
    out.append(xs[i - 1] + 10 * xs[i - 3])
for i in range(1, 4):
    out.append(xs[i - 1])
a, b = 1, 3
xs[a - b] = 7
out.append(xs[a - b])
out.append(xs[len(xs) - 1])
print(out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7], out[8])
]==]
   end)

   it("leaves a plain position plain where it cannot be below 0", function()
      local text = port.translate {"xs = [1, 2]\nfor i in range(1, 2):\n    print(xs[i - 1])\n    print(i)\n"}[1].text
      assert.truthy(text:find("print(xs[i])", 1, true))
   end)

   it("calls a function once for an item from the end of its result", function()
      same [==[
count = 0

def f(n):
    global count
    count += 1
    return [n, n + 1, n + 2]

print(f(3)[-1], f(4)[-2], count)
]==]
   end)

   it("keeps the limit of a deque on both sides", function()
      same [==[
from collections import deque
q = deque(maxlen=3)
for i in range(5):
    q.append(i)
q.appendleft(9)
q.extend([7, 8])
print(len(q), q[0], q[1], q[2])
]==]
   end)

   it("assigns to slices of a list", function()
      same [==[
xs = [0, 1, 2, 3, 4, 5]
xs[1:3] = [7, 8, 9]
print(len(xs), xs[1], xs[3], xs[4])
xs[-2:] = []
xs[1:1] = [5]
print(len(xs), xs[0], xs[1], xs[2], xs[-1])
xs[:] = [3]
print(len(xs), xs[0])
]==]
   end)

   it("leaves loops from within try", function()
      same [==[
def run(n):
    seen = []
    for i in range(n):
        try:
            if i == 1:
                continue
            if i == 4:
                break
            if i == 3:
                raise ValueError("three")
            seen.append(i)
        except ValueError:
            seen.append(-i)
        else:
            seen.append(i + 100)
        finally:
            seen.append(50)
        seen.append(i + 1000)
    else:
        seen.append(-1)
    return seen

for n in (3, 9):
    total = 0
    for value in run(n):
        total = total * 3 + value
    print(len(run(n)), total)

for i in range(5):
    try:
        for j in range(3):
            if j == 1:
                break
        try:
            if i == 3:
                break
        except ValueError:
            pass
        print(i, j)
    except ValueError:
        pass
]==]
   end)

   it("tests the truth of values of any type", function()
      same [==[
def either(x, d):
    return x or d

def test(x):
    if x:
        return "yes"
    return "no"

class Thing:
    pass

class Box:
    def __init__(self, n):
        self.n = n
    def __len__(self):
        return self.n

for value in (0, 1, 0.0, "", "a", False):
    print(test(value), either(value, 7))
print(len(either([], [1, 2])), len(either([5], [1, 2])))
print(test([]), test([0]), test({}), test({"a": 0}), test(set()), test(()))
print(test(Thing()), test(Box(0)), test(Box(2)))
print("no" if not either(0, 0) else "yes")
]==]
   end)

   it("has a note where the type that decides is unknown", function()
      assert.is_true(noted("def f(xs):\n    del xs[0]\n", "`xs` is taken for a list"))
      assert.is_true(noted("def f(xs, v):\n    xs[1:3] = v\n", "`xs` is taken for a tensor"))
      assert.is_true(noted("def f(xs):\n    while (n := len(xs)) > 3:\n        print(n)\n",
         "an assignment within an expression"))
      assert.is_true(noted("def f(xs, j):\n    return xs[j - 5]\n", "`j - 5` is taken for a key"))
   end)
end)
