-- Tests completion by the Tab key in the interactive mode.

local torch = require "tlua"
local complete = require "tlua.repl.complete"

-- Returns the completions of a text, for globals in `env`.
local function words(text, env) return complete.words(text, env or _G) end

local function has(text, word, env)
   for _, found in ipairs(words(text, env)) do
      if found == word then return true end
   end
   return false
end

describe("completion", function()
   it("finds globals and keywords", function()
      assert.same({"function", "funny"}, words("fun", {funny = 1, other = 2}))
      assert.same({"string"}, words "strin")
   end)

   it("finds all public names for an empty text", function()
      local found = table.concat(words("", {a = 1, _b = 2}), " ")
      assert.matches("^a and break", found)
      assert.not_matches("_b", found)
   end)

   it("finds fields of nested tables", function()
      local env = {a = {b = {cat = 1, cow = 2, dog = 3}}}
      assert.same({"a.b.cat", "a.b.cow"}, words("a.b.c", env))
      assert.same({"a.b"}, words("a.", env))
   end)

   it("finds elements of lists", function()
      local env = {list = {{name = 1}, {nose = 2}}}
      assert.same({"list[1].name"}, words("list[1].n", env))
      assert.same({"list[2].nose"}, words("list[2].n", env))
      assert.same({}, words("list[3].n", env))
   end)

   it("finds only what can be called after a colon", function()
      local env = {t = {field = 1, first = function() end, fly = setmetatable({}, {__call = function() end})}}
      assert.same({"t:first", "t:fly"}, words("t:f", env))
   end)

   it("follows __index tables", function()
      local base = {method = function() end}
      local object = setmetatable({mine = 1}, {__index = setmetatable({}, {__index = base})})
      assert.same({"o.method", "o.mine"}, words("o.m", {o = object}))
      assert.same({"s:rep", "s:reverse"}, words("s:re", {s = "text"}))
   end)

   it("ends if __index tables form a cycle", function()
      local a, b = {}, {x1 = 1}
      setmetatable(a, {__index = b})
      setmetatable(b, {__index = a})
      assert.same({"a.x1"}, words("a.x", {a = a}))
      assert.same({}, words("a.nothing.x", {a = a}))
   end)

   it("calls no function of the user's", function()
      local called = false
      local function nosy() called = true end
      local env = {t = setmetatable({}, {__index = nosy, __pairs = nosy, __len = nosy})}
      assert.same({}, words("t.a.b", env))
      assert.same({}, words("t:a", env))
      assert.is_false(called)
   end)

   it("hides private names until an underscore is typed", function()
      local env = {t = {_hidden = 1, shown = 2}}
      assert.same({"t.shown"}, words("t.", env))
      assert.same({"t._hidden"}, words("t._", env))
   end)

   it("leaves out keys that are no names", function()
      assert.same({"t.a"}, words("t.", {t = {a = 1, ["b c"] = 2, [1] = 3, [true] = 4}}))
   end)

   it("keeps the text before a name", function()
      local env = {i = {jay = 1}, list = {}}
      assert.same({"list[i.jay"}, words("list[i.j", env))
      assert.same({"list..i.jay"}, words("list..i.j", env))
   end)

   it("returns nothing for text that is not a path", function()
      for text in ("3 3x . : a.b. x[1. nothing. nothing[1]."):gmatch("%S+") do
         assert.same({}, words(text, {a = {b = 5}}), text)
      end
   end)

   it("finds methods and properties of tensors", function()
      local env = {x = torch.ones(2)}
      assert.is_true(has("x:su", "x:sum", env))
      assert.is_true(has("x:add", "x:add_", env))
      assert.is_true(has("x.sh", "x.shape", env))
      assert.is_true(has("x.requires", "x.requires_grad", env))
      assert.is_false(has("x:sh", "x:shape", env))
      for _, word in ipairs(words("x:", env)) do assert.not_matches("^x:_", word) end
   end)

   it("offers the options of a call in its table", function()
      local env = {nn = torch.nn, optim = torch.optim, torch = torch, x = torch.ones(2), f = print}
      local function options(before, text) return complete.words(text or "", env, before) end
      assert.same({"bias"}, options("nn.Linear(3, 1, {", "bi"))
      assert.same({"weight_decay"}, options("optim.Adam(nn.Linear(1, 1):parameters(), {lr = 1, ", "wei"))
      assert.same({"num_workers"}, options("torch.data.DataLoader(s, {shuffle = true, ", "num"))
      assert.same({"device", "dtype"}, options("torch.zeros(2, {", "d"))
      assert.same({"keepdim"}, options("f(x:sum {dim = {1, 2}, ", "k"))
      assert.same({"create_graph", "gradient", "inputs", "retain_graph"}, options "x:backward{")
      assert.same({"compress", "metadata", "quality"}, options 'torch.save({}, "a{(b", {')
   end)

   it("offers names outside a call's table", function()
      local env = {nn = torch.nn, bird = 1}
      for _, before in ipairs {"nn.Linear(3, {bias = ", "t = {", "nn.Linear(", "{", "}", "no.such({"} do
         assert.same({"bird"}, complete.words("bir", env, before), before)
      end
   end)

   it("finds modules that are not loaded yet", function()
      assert.is_true(has("torch.n", "torch.nn", {torch = torch}))
      assert.is_true(has("torch.nn.Lin", "torch.nn.Linear", {torch = torch}))
   end)

   it("finds submodules and methods of modules", function()
      local env = {m = torch.nn.Linear(2, 3)}
      assert.same({"m.weight"}, words("m.wei", env))
      assert.is_true(has("m:for", "m:forward", env))
      assert.is_true(has("m.weight:su", "m.weight:sum", env))
   end)
end)
