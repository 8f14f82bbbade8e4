-- Tests which lines of Lua `tlua port` writes for each construct of Python.

local port = require "spec.support.port"

-- Each row has the name of a construct, its Python text and the Lua text.
local rows = {
   {"an assignment", "x = 1\ny = x + 2", "local x = 1\nlocal y = x + 2"},
   {"numbers as they are written", "x = 1e-3\ny = 0x1F\nz = 1_000", "local x = 1e-3\nlocal y = 0x1F\nlocal z = 1000"},
   {"None, True and False", "x = [None is not True, False]", "local x = {nil ~= true, false}"},
   {"comments and blank lines", "# above\n\nx = 1  # behind\n\n\n# before y\ny = 2",
      "-- above\n\nlocal x = 1 -- behind\n\n-- before y\nlocal y = 2"},
   {"a branch that assigns for later", "a = 1\nif a > 0:\n    b = 1\nelse:\n    b = 2\nprint(b)",
      "local a = 1\nlocal b\nif a > 0 then\n   b = 1\nelse\n   b = 2\nend\nprint(b)"},
   {"a variable of a branch alone", "a = 1\nif a:\n    b = 2\n    print(b)",
      "local a = 1\nif a ~= 0 then\n   local b = 2\n   print(b)\nend"},
   {"a function that uses a later variable", "def f():\n    return n\nn = 3",
      "local n\nlocal function f()\n   return n\nend\nn = 3"},
   {"elif", "x = 2\nif x == 1:\n    pass\nelif x == 2:\n    print(x)",
      "local x = 2\nif x == 1 then\nelseif x == 2 then\n   print(x)\nend"},
   {"range", "for i in range(3):\n    print(i)", "for i = 0, 2 do\n   print(i)\nend"},
   {"range with ends and step", "for i in range(2, 9, 3):\n    print(i)", "for i = 2, 8, 3 do\n   print(i)\nend"},
   {"range that only counts positions", "xs = [1, 2]\nfor i in range(len(xs)):\n    print(xs[i])",
      "local xs = {1, 2}\nfor i = 1, #xs do\n   print(xs[i])\nend"},
   {"a position that is used otherwise, too",
      "xs = [1, 2]\nfor i in range(2):\n    print(xs[i])\n    print(i)",
      "local xs = {1, 2}\nfor i = 0, 1 do\n   print(xs[i + 1])\n   print(i)\nend"},
   {"a loop variable used after the loop", "for i in range(3):\n    pass\nprint(i)",
      "local i\nfor i_ = 0, 2 do\n   i = i_\nend\nprint(i)"},
   {"a list's loop", "for x in [1, 2]:\n    print(x)", "for _, x in ipairs({1, 2}) do\n   print(x)\nend"},
   {"continue", "for i in range(3):\n    if i == 1:\n        continue\n    print(i)", [[
for i = 0, 2 do
   if i == 1 then
      goto continue
   end
   print(i)
   ::continue::
end]]},
   {"while", "n = 3\nwhile n > 0:\n    n -= 1", "local n = 3\nwhile n > 0 do\n   n = n - 1\nend"},
   {"a list comprehension", "xs = [i * 2 for i in range(4) if i > 1]", [[
local xs = {}
for i = 0, 3 do
   if i > 1 then
      xs[#xs + 1] = i * 2
   end
end]]},
   {"negative positions of a list", "xs = [1, 2, 3]\ny = xs[-1] + xs[-2]",
      "local xs = {1, 2, 3}\nlocal y = xs[#xs] + xs[#xs - 1]"},
   {"slices of strings", 's = "hello"\nt = s[1:3] + s[:-1] + s[2:] + s[0]',
      'local s = "hello"\nlocal t = s:sub(2, 3) .. s:sub(1, -2) .. s:sub(3) .. s:sub(1, 1)'},
   {"the truth of numbers, texts and lists",
      'n = 0\ns = ""\nxs = []\nif n or not s or xs:\n    print(n)', [[
local n = 0
local s = ""
local xs = {}
if n ~= 0 or s == "" or #xs > 0 then
   print(n)
end]]},
   {"chained comparison", "a = 2\nb = 1 < a <= 3", "local a = 2\nlocal b = 1 < a and a <= 3"},
   {"a chained comparison that calls", "def f():\n    return 2\nb = 1 < f() <= 3", [[
local function f()
   return 2
end
local b = (function(middle_, middle) return middle_ < middle and middle <= 3 end)(1, f())]]},
   {"a default value for 0, an empty text or list",
      'n = 0\nm = n or 5\ns = "x"\nt = s.strip() or m', [[
local n = 0
local m = n ~= 0 and n or 5
local s = "x"
local t = py.either(py.strip(s), function() return m end)]]},
   {"a position that may be negative",
      'xs = [1, 2]\ni = -1\ny = xs[i]\nxs[i] = 3\nz = "ab"[i]\nfor k in range(-1, -3, -1):\n'
      .. "    print(xs[k])", [[
local xs = {1, 2}
local i = -1
local y = xs[py.position(i, #xs)]
xs[py.position(i, #xs)] = 3
local z = ("ab"):sub(py.position(i), py.position(i))
for k = -1, -2, -1 do
   print(xs[py.position(k, #xs)])
end]]},
   {"a slice's end that may be negative", "xs = [1, 2, 3]\ni = -2\ny = xs[i:] + xs[:i]",
      "local xs = {1, 2, 3}\nlocal i = -2\n"
      .. "local y = py.concat(py.slice(xs, py.position(i)), py.slice(xs, 1, py.stop(i)))"},
   {"powers of integers", "n = 3\nx = 2 ** 3 + 2 ** n\ny = 2 ** -1\nz = pow(2, n, 5)",
      "local n = 3\nlocal x = (1 << 3) + py.power(2, n)\nlocal y = 2 ^ -1\nlocal z = py.power(2, n, 5)"},
   {"defaults that are computed once", "n = 3\ndef f(x, n=n, xs=[], k=-1):\n    return n", [[
local n = 3
local n_default = n
local xs_default = {}
local function f(x, n, xs, k)
   if n == nil then n = n_default end
   if xs == nil then xs = xs_default end
   if k == nil then k = -1 end
   return n
end]]},
   {"a lambda's default", "fs = [lambda x, i=i: x + i for i in range(3)]", [[
local fs = {}
for i = 0, 2 do
   fs[#fs + 1] = (function(i_) return function(x, i) if i == nil then i = i_ end return x + i end end)(i)
end]]},
   {"arguments behind a list of them", "def f(*a):\n    return a\nxs = [1]\nf(0, *xs, 2)", [[
local function f(...)
   local a = {...}
   return a
end
local xs = {1}
f(table.unpack(py.concat({0}, xs, {2})))]]},
   {"a result that is a tuple or not", "def f(x):\n    return (x, 1) if x else (None, 2)\na, b = f(3)",
      [[
local function f(x)
   if x ~= 0 then
      return x, 1
   end
   return nil, 2
end
local a, b = f(3)]]},
   {"methods of a parameter of no known type", "def f(x, log):\n    log.append(x)", [[
local function f(x, log)
   table.insert(log, x)
end]]},
   {"places from the end", "xs = [1, 2]\nxs.insert(-1, 5)\nxs.pop(-2)",
      "local xs = {1, 2}\ntable.insert(xs, #xs, 5)\ntable.remove(xs, #xs - 1)"},
   {"an item from the end of what has no known type", "def f(h):\n    h[-1] = 5\n    return h[-2]", [[
local function f(h)
   h[py.position(-1, #h)] = 5
   return h[py.position(-2, #h)]
end]]},
   {"a module by a name in a variable", "import torch.nn as nn\n"
      .. 'd = nn.ModuleDict({"a": nn.ReLU()})\nname = "a"\nf = d[name]',
      'local nn = torch.nn\nlocal d = nn.ModuleDict({a = nn.ReLU()})\nlocal name = "a"\n' .. "local f = d[name]"},
   {"in a list of constants", 'a = "x"\nb = a in ["x", "y"]\nc = a not in ("x", "y")',
      'local a = "x"\nlocal b = a == "x" or a == "y"\nlocal c = a ~= "x" and a ~= "y"'},
   {"a condition whose value is never false", "n = 3\nx = 1 if n > 2 else 2",
      "local n = 3\nlocal x = n > 2 and 1 or 2"},
   {"a condition whose value may be nil", "n = 3\nx = None if n > 2 else 2",
      "local n = 3\nlocal x\nif n > 2 then x = nil else x = 2 end"},
   {"f-strings", 'n = 3\nx = 1.5\nprint(f"{n}: {x:.2f} {n:5d} 100%")',
      'local n = 3\nlocal x = 1.5\nprint(("%s: %.2f %5d 100%%"):format(n, x, n))'},
   {"str.format", 'n = 3\nprint("{} of {:>4}, {0}".format(n, "x"))',
      'local n = 3\nprint(("%s of %4s, %s"):format(n, "x", n))'},
   {"the % operator", 'n = 3\nprint("%d of %s" % (n, "x"))', 'local n = 3\nprint(("%d of %s"):format(n, "x"))'},
   {"print of several values", 'n = 3\nprint("n:", n)', 'local n = 3\nprint(("n: %s"):format(n))'},
   {"print without a new line", 'print("x", end="")', 'io.write("x")'},
   {"defaults and keywords", "def f(a, b=2, c=None):\n    return a\nf(1, c=3)", [[
local function f(a, b, c)
   if b == nil then b = 2 end
   return a
end
f(1, nil, 3)]]},
   {"several results", "def f():\n    return 1, 2\na, b = f()\nc = f()",
      "local function f()\n   return 1, 2\nend\nlocal a, b = f()\nlocal c = {f()}"},
   {"try", 'try:\n    print(1)\nexcept ValueError as e:\n    print(e)', [[
local ok, message = pcall(function()
   print(1)
end)
if not ok then
   local e = message
   print(e)
end]]},
   {"with open", 'with open("x.txt") as f:\n    for line in f:\n        print(line.strip())', [[
do
   local f <close> = assert(io.open("x.txt"))
   for line in f:lines "L" do
      print(py.strip(line))
   end
end]]},
   {"names that Lua reserves", "end = 1\nlocal = end", "local end_ = 1\nlocal local_ = end_"},
   {"list methods", "xs = []\nxs.append(1)\nxs.insert(0, 2)\nxs.pop()\nxs += [3]",
      "local xs = {}\ntable.insert(xs, 1)\ntable.insert(xs, 1, 2)\ntable.remove(xs)\ntable.insert(xs, 3)"},
   {"dicts", 'd = {"a": 1, 2: 3}\nd["b"] = d.get("a", 0)\nprint("a" in d)',
      'local d = {a = 1, [2] = 3}\nd["b"] = d.a or 0\nprint(d["a"] ~= nil)'},
   {"the main guard", 'def main():\n    print(1)\n\nif __name__ == "__main__":\n    main()',
      "local function main()\n   print(1)\nend\n\nmain()"},
   {"lambda", "f = lambda x: x + 1", "local f = function(x) return x + 1 end"},
   {"math and time", "import math, time\nx = math.sqrt(2) + math.pi\nt = time.time()",
      "local x = math.sqrt(2) + math.pi\nlocal t = torch.io.time()"},
   {"durations", "import time\na = time.perf_counter()\nb = time.monotonic()",
      "local a = torch.io.clock()\nlocal b = torch.io.clock()"},

   -- PyTorch
   {"imports", "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
      .. "from torch.utils.data import DataLoader",
      "local nn = torch.nn\nlocal F = torch.nn.functional\nlocal DataLoader = torch.data.DataLoader"},
   {"dimensions by position and name",
      "import torch\nx = torch.zeros(2, 3)\ny = x.sum(1) + x.mean(dim=0) + torch.cat([x, x], -1)",
      "local x = torch.zeros(2, 3)\nlocal y = x:sum(2) + x:mean({dim = 1}) + torch.cat({x, x}, -1)"},
   {"lists of dimensions", "import torch\nx = torch.zeros(2, 3).permute(1, 0).sum((0, 1))",
      "local x = torch.zeros(2, 3):permute(2, 1):sum({1, 2})"},
   {"indices of a tensor", "import torch\nx = torch.zeros(4, 5)\n"
      .. "y = x[0] + x[1:3, 0] + x[:, -1] + x[..., 2:] + x[None] + x[:-1]",
      "local x = torch.zeros(4, 5)\n"
      .. 'local y = x[1] + x[{{2, 3}, 1}] + x[{{}, -1}] + x[{"...", {3, -1}}] + x[{torch.newaxis}]'
      .. " + x[{{1, -2}}]"},
   {"an index that may be a mask is marked", "import torch\ndef f(x: torch.Tensor, i):\n    return x[i]",
      "local function f(x, i)\n   return x[i + 1 --[[ port: index? ]]]\nend"},
   {"comparison of tensors", "import torch\nx = torch.ones(3)\ny = (x > 0.5) & (x == 1)",
      "local x = torch.ones(3)\nlocal y = x:gt(0.5) & x:eq(1)"},
   {"sizes", "import torch\nx = torch.ones(3, 4)\nn = x.shape[0] + x.size(-1) + len(x)\nb, c = x.shape",
      "local x = torch.ones(3, 4)\nlocal n = x:size(1) + x:size(-1) + #x\nlocal b, c = table.unpack(x.shape)"},
   {"two results of an operator", "import torch\nx = torch.ones(3, 4)\nv, i = x.max(1)\n"
      .. "j = x.max(1)[1]\nw = torch.max(x, 1).values",
      "local x = torch.ones(3, 4)\nlocal v, i = x:max(2)\nlocal j = (select(2, x:max(2)))\n"
      .. "local w = (torch.max(x, 2))"},
   {"positions that an operator has found count from 1",
      'import torch\nnames = ["a", "b"]\nprint(names[torch.ones(2).argmax().item()])',
      'local names = {"a", "b"}\nprint(names[torch.ones(2):argmax():item()])'},
   {"no_grad", "import torch\nwith torch.no_grad():\n    x = torch.ones(1)\nprint(x)", [[
local x
do
   local _ <close> = torch.no_grad()
   x = torch.ones(1)
end
print(x)]]},
   {"a decorated function", "import torch\n@torch.no_grad()\ndef f(x):\n    return x",
      "local function f(x)\n   local _ <close> = torch.no_grad()\n   return x\nend"},
   {"a loop over a loader", "from torch.utils.data import DataLoader\nloader = DataLoader([1, 2])\n"
      .. "for i, (x, y) in enumerate(loader):\n    print(i)",
      "local DataLoader = torch.data.DataLoader\nlocal loader = DataLoader({1, 2})\n"
      .. "for i, x, y in py.enumerate(loader:iter()) do\n   print(i)\nend"},
   {"a module", [[
import torch.nn as nn
class Net(nn.Module):
    """A net."""
    def __init__(self, n, bias=True):
        super().__init__()
        self.fc = nn.Linear(n, 2, bias=bias)

    def forward(self, x):
        return self.fc(x).relu()

    def loss(self, x):
        return self.forward(x).sum().item()
net = Net(3, bias=False)
print(net.loss(None), net.training)]], [[
local nn = torch.nn
local Net = torch.class("Net", nn.Module)
-- A net.

function Net:__init(n, bias)
   if bias == nil then bias = true end
   nn.Module.__init(self)
   self.fc = nn.Linear(n, 2, {bias = bias})
end

function Net:forward(x)
   return self.fc(x):relu()
end

function Net:loss(x)
   return self:forward(x):sum():item()
end
local net = Net(3, false)
print(("%s %s"):format(net:loss(nil), net.training))]]},
   {"the state of an LSTM", "import torch\nlstm = torch.nn.LSTM(2, 3)\nx = torch.ones(1, 1, 2)\n"
      .. "out, (h, c) = lstm(x)\nout, state = lstm(x, (h, c))",
      "local lstm = torch.nn.LSTM(2, 3)\nlocal x = torch.ones(1, 1, 2)\nlocal out, state2 = lstm(x)\n"
      .. "local h, c = table.unpack(state2)\nlocal state\nout, state = lstm(x, {h, c})"},
   {"a Sequential of named modules", "from collections import OrderedDict\n"
      .. "import torch.nn as nn\nm = nn.Sequential(OrderedDict([('a', nn.Linear(2, 3)),\n"
      .. "    ('b', nn.ReLU())]))\ny = m(None)",
      "local nn = torch.nn\nlocal m = nn.Sequential {{\"a\", nn.Linear(2, 3)}, {\"b\", nn.ReLU()}}\nlocal y = m(nil)"},
   {"a class's name, without the module's", "import torch.nn as nn\ndef f(m):\n"
      .. "    return type(m).__name__, m.__class__.__name__.find('Conv') != -1",
      "local nn = torch.nn\nlocal function f(m)\n   return torch.type(m):match(\"[^.]*$\"), "
      .. "torch.type(m):match(\"[^.]*$\"):find(\"Conv\", 1, true) ~= nil\nend"},
   {"a format that is made at run time", "def f(t, o):\n    print(t.format(1, 2))\n    print(t.format(a=1))\n"
      .. "    print(t.format(**o.__dict__))", "local function f(t, o)\n   print(py.formatted(t, 1, 2))\n"
      .. "   print(py.formatted_by(t, {a = 1}))\n   print(py.formatted_by(t, o))\nend"},
   {"a position from the end of a value of unknown type", "def f(c):\n    return c['a'][-1]",
      "local function f(c)\n   return c.a[py.position(-1, #c.a)]\nend"},
   {"a loop over a ModuleDict", "import torch.nn as nn\nm = nn.ModuleDict({'a': nn.ReLU()})\n"
      .. "for k in m:\n    print(k)\nfor k, n in m.items():\n    print(k)",
      "local nn = torch.nn\nlocal m = nn.ModuleDict({a = nn.ReLU()})\nfor k in pairs(m) do\n   print(k)\nend\n"
      .. "for k, n in pairs(m) do\n   print(k)\nend"},
   {"argparse", "import argparse\nparser = argparse.ArgumentParser(description='Trains.')\n"
      .. "parser.add_argument('--lr', type=float, default=1, help='rate')\n"
      .. "parser.add_argument('--no-cuda', action='store_true')\nargs = parser.parse_args()\n"
      .. "if args.no_cuda:\n    print(args.lr)", [[
local parser = torch.utils.options(arg[0], "Trains.")
parser:option("--lr", "rate", 1.0)
parser:flag("--no-cuda")
local args = parser:parse()
if args.no_cuda then
   print(args.lr)
end]]},
   {"a parameter changed in place", "import torch\ndef f(ps):\n    for p in ps:\n        p.data -= p.grad",
      "local function f(ps)\n   for p in py.each(ps) do\n      p.data = p.data - p.grad\n   end\nend"},
}

describe("tlua port", function()
   if not port.python then
      pending("no Python of version 3.8 or later")
      return
   end

   local results

   setup(function()
      local texts = {}
      for i, row in ipairs(rows) do texts[i] = row[2] .. "\n" end
      results = port.translate(texts)
   end)

   for i, row in ipairs(rows) do
      it("translates " .. row[1], function()
         assert.equal(row[3], port.strip(results[i].text))
         assert(load(results[i].text, "=" .. row[1]))
      end)
   end

   it("lists a call of a method that several classes have, with arguments by name", function()
      local text = ""
      for i, parameters in ipairs {"self, a", "self, a, b=1", "self, a"} do
         text = text .. ("class C%d:\n    def act(%s): return a\n"):format(i, parameters)
      end
      local result = port.translate({text .. "def f(os, i):\n    return os[i].act(3, b=2)\n"})[1]
      local notes = {}
      for i, note in ipairs(result.notes) do notes[i] = note.text end
      assert.matches("act: several classes have methods of this name", table.concat(notes, "\n"))
      assert.matches(":act%(3, {b = 2}%)", result.text)
   end)

   it("formats as Python does", function()
      local py = require "tlua.port.python"
      for _, row in ipairs {
         -- Python's format(value, spec)
         {-5, "b", "-101"}, {-5, "08b", "-0000101"}, {-5, "#x", "-0x5"}, {-255, "x", "-ff"},
         {5, "#010b", "0b00000101"}, {5, "+b", "+101"}, {5, " d", " 5"}, {0, "b", "0"}, {255, "#X", "0XFF"},
         {-8, "o", "-10"}, {255, "*^#9x", "**0xff***"}, {-255, "#08x", "-0x000ff"}, {-42, "=6d", "-   42"},
         {math.mininteger, "b", "-1" .. ("0"):rep(63)},
      } do assert.equal(row[3], py.format(row[1], row[2])) end
      local text = port.translate({"n = -255\nprint(f'{n:x} {n:d}')\n"})[1].text
      assert.matches('("%s %d"):format(py.format(n, "x"), n)', text, 1, true)
   end)

   it("says what a Sequential of an OrderedDict needs", function()
      local head = "from collections import OrderedDict\nimport torch.nn as nn\n"
      local notes = port.translate({head .. "def f(ps):\n    return nn.Sequential(OrderedDict(ps))\n"})[1].notes
      assert.equal(1, #notes)
      assert.truthy(notes[1].text:find("expected a list of pairs {name, module}", 1, true))
   end)
end)
