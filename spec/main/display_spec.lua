-- Tests how the interactive mode shows values.

require "tlua" -- loads the library's modules, because the interactive mode shows their values
local display = require "tlua.repl.display"

local function show(value, width) return display.value({width = width or 80}, value) end

describe("a table is shown", function()
   it("with its list first and then its keys in order", function()
      assert.equal("{1, 2, a = 3, b = 4}", show {1, 2, b = 4, a = 3})
      assert.equal('{[-1] = "m", [2.5] = "n", s = "t", [true] = "u"}',
         show {[true] = "u", s = "t", [2.5] = "n", [-1] = "m"})
   end)

   it("with functions and other values by their kind", function()
      assert.equal("{<function>, <function>}", show {print, function() end})
      assert.matches("^{thread: 0x%x+}$", show {coroutine.create(print)})
   end)

   it("with holes marked", function() assert.equal("{1, [3] = 3}", show {1, nil, 3}) end)

   it("as {} if it is empty", function()
      assert.equal("{}", show {})
      assert.equal("{{}, {}}", show {{}, {}})
   end)

   it("with keys that are no names in brackets", function()
      assert.equal('{["a b"] = 1, ["end"] = 2}', show {["a b"] = 1, ["end"] = 2})
   end)

   it("with strings quoted and escaped", function()
      assert.equal([[{"a\n\t\"\\", "\x00\x1B", "é", "\xFF"}]], show {'a\n\t"\\', "\0\27", "é", "\xff"})
   end)

   it("with long strings cut, between characters", function()
      assert.equal('{"' .. ("é"):rep(200) .. '"...}', show({("é"):rep(300)}, 1000))
      assert.equal('{"' .. ("\\xFF"):rep(200) .. '"...}', show({("\xff"):rep(300)}, 1000))
      assert.equal('{"' .. ("é"):rep(200) .. '"}', show({("é"):rep(200)}, 1000))
   end)

   it("with cycles marked", function()
      local t = {1}
      t.self = t
      t.inner = {t}
      assert.equal("{1, inner = {<cycle>}, self = <cycle>}", show(t))
   end)

   it("with a shared table shown each time", function()
      local shared = {1}
      assert.equal("{{1}, {1}}", show {shared, shared})
   end)

   it("with its name, if its metatable has one", function()
      assert.equal("Point {x = 1}", show(setmetatable({x = 1}, {__name = "Point"})))
   end)

   it("by its __tostring", function()
      local point = setmetatable({}, {__tostring = function() return "(1, 2)" end})
      assert.equal("(1, 2)", show(point))
      assert.equal("{(1, 2)}", show {point})
   end)

   it("without asking its metamethods", function()
      local nosy = {__index = error, __pairs = error, __len = error, __eq = error, __lt = error}
      assert.equal("{1, a = 2}", show(setmetatable({1, a = 2}, nosy)))
   end)

   it("on several lines if it does not fit one", function()
      assert.equal(table.concat({
         "{", "   alpha = 1,", "   beta = {1, 2},", "   gamma = {",
         '      delta = "' .. ("x"):rep(20) .. '",', "      epsilon = 1", "   }", "}"}, "\n"),
         show({alpha = 1, beta = {1, 2}, gamma = {delta = ("x"):rep(20), epsilon = 1}}, 30))
   end)

   it("with short elements of a list side by side", function()
      local t = {}
      for i = 1, 20 do t[i] = i end
      t.n = 20
      assert.equal(table.concat({
         "{", "   1, 2, 3, 4, 5, 6, 7, 8,", "   9, 10, 11, 12, 13, 14,",
         "   15, 16, 17, 18, 19, 20,", "   n = 20", "}"}, "\n"), show(t, 26))
      for line in show(t, 26):gmatch("[^\n]+") do assert.is_true(#line <= 26, line) end
   end)

   it("with at most a limited number of elements and levels", function()
      local deep = {}
      local inner = deep
      for _ = 1, 10 do
         inner[1] = {}
         inner = inner[1]
      end
      inner[1] = 1
      assert.equal("{{{{{{...}}}}}}", show(deep))

      local long = {}
      for i = 1, 250 do long[i] = i end
      assert.matches("99, 100,\n?%s*%.%.%. %(150 more%)\n}$", show(long))

      local wide = {}
      for i = 1, 90 do wide[i] = table.move(long, 1, 90, 1, {}) end
      local text = show(wide)
      assert.is_true(#text < 10000, #text)
   end)

   it("with tensors in one line", function()
      local torch = require "tlua"
      assert.matches("^{a = <float32 tensor 3x4>, b = <int64 tensor 100>}$",
         show {a = torch.zeros(3, 4), b = torch.zeros(100, {dtype = "int64"})})
      assert.not_matches("\n", show {torch.zeros(2, 2)})
   end)
end)

describe("several values are shown", function()
   it("on one line, as print does", function()
      assert.equal("1\tnil\ta\t{1}", display.values({}, 1, nil, "a", {1}))
      assert.equal("nil", display.values({}, nil))
   end)

   it("below each other if one takes several lines", function()
      assert.equal("1\na\nb\n2", display.values({}, 1, "a\nb", 2))
   end)
end)
