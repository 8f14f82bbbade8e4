local torch = require "tlua"
local args = require "tlua.args"

local take = args.signature [[f(count: count, ratio: number = 0.5, name: string?,
   sizes: integers|string = 3, flag: boolean = true)]]

describe("arguments declared by a signature", function()
   it("come by position and by name", function()
      assert.same({count = 2, ratio = 0.5, sizes = 3, flag = true}, take(2))
      assert.same({count = 2, ratio = 1, name = "n", sizes = {1, 2}, flag = false}, take(2, 1, "n", {1, 2}, false))
      assert.same({count = 2, ratio = 1, name = "n", sizes = "all", flag = true},
         take(2, {ratio = 1, name = "n", sizes = "all"}))
      assert.same({count = 2, ratio = 0.5, sizes = 3, flag = false}, take {count = 2, flag = false})
      assert.same({count = 2, ratio = 0.5, sizes = 3, flag = true}, take(2, nil, nil, nil, {}))
   end)

   it("make integers of whole numbers", function()
      local a = take(2.0, {sizes = {3.0}})
      assert.same({"integer", "integer"}, {math.type(a.count), math.type(a.sizes[1])})
   end)

   it("are checked", function()
      assert.raises("f: count is missing; expected an integer of at least 0", function() take() end)
      assert.raises("f: count: expected an integer of at least 0, got -1", function() take(-1) end)
      assert.raises("f: ratio: expected a number, got \"x\"", function() take(1, "x") end)
      assert.raises("f: flag: expected a boolean, got 1", function() take(1, {flag = 1}) end)
      assert.raises("f: sizes: expected an integer or a list of integers or a string",
         function() take(1, {sizes = {1.5}}) end)
      assert.raises("f: unknown option rato; did you mean ratio?", function() take(1, {rato = 2}) end)
      assert.raises("f: ratio is given by position and by name", function() take(1, 2, {ratio = 2}) end)
      assert.raises("f: expected at most 5 arguments, got 6", function() take(1, 2, "n", 3, true, 6) end)
   end)

   it("may be tables and objects", function()
      local g = args.signature "g(object: any, options: table?, n: integer = 1)"
      local object = torch.nn.Identity()
      assert.is_true(g(object).object == object)
      assert.same({a = 1}, g({a = 1}).object)
      assert.same({a = 1}, g(1, {options = {a = 1}}).options)
      assert.same({1, 2}, g(1, {1, 2}).options)
      assert.equal(5, g(1, {n = 5}).n)
      assert.same({}, g({}).object)
   end)

   it("take no unknown option for an optional table", function()
      local g = args.signature "g(x: number, options: table?, hint: any?)"
      for n = 1, 2 do
         local given = {1, {}, nil}
         given[n + 1] = {nonsense = 1}
         assert.raises("g: unknown option nonsense; there are x, options, hint (a table for "
            .. (n == 1 and "options" or "hint") .. " is given as {", "= {...}})", function()
            g(table.unpack(given))
         end)
      end
      local h = args.signature "h(x: number, columns: names?)"
      assert.same({nonsense = 1}, h(1, {nonsense = 1}).columns)
   end)
end)

describe("values in messages", function()
   it("are described by kind", function()
      local texts = {}
      for i, value in ipairs {1, "x", true, print, {}, torch.nn.ReLU(), torch.ones(2, 3)} do
         texts[i] = args.describe(value)
      end
      assert.same({"1", '"x"', "true", "a function", "a table", "an instance of nn.ReLU",
         "a float32 tensor of shape (2, 3)"}, texts)
   end)

   it("reads every signature of the library, each of which waits until it is used", function()
      for _, space in ipairs {"nn", "nn.init", "nn.functional", "nn.utils", "optim", "data", "func",
         "distributed", "utils", "io"} do
         local names = torch
         for part in space:gmatch "[^.]+" do names = names[part] end
         for _ in pairs(names) do end -- each name loads its module on first use, so this loop loads all modules
      end
      local titles = args.titles()
      assert.is_true(#titles > 300, tostring(#titles))
      for _, title in ipairs(titles) do
         local signature = args.declaration(title)
         assert.is_nil(signature.text)
         for i, parameter in ipairs(signature) do
            assert.equal(parameter, signature.by_name[parameter.name], title .. i)
         end
      end
      assert.is_nil(args.declaration "no.such.function")
   end)
end)
