-- Tests torch.cond: alone, with gradients, and in exported programs. Both branches of a program must compute the same
-- as the Lua functions.

local torch = require "tlua"
local saved = require("spec.support.programs").saved
local nn = torch.nn

-- Exports a function, and compares the program, the reloaded program and the rewritten program with the function. The
-- inputs lead to each of the branches.
local function check(fn, sets, options)
   local program = torch.export(fn, sets[1], options)
   local programs = {program, saved(program), program:graph():program()}
   assert.equal(program:graph():eliminate_dead_code(), 0)
   for _, set in ipairs(sets) do
      local expected = {fn(table.unpack(set))}
      for _, one in ipairs(programs) do
         for i, result in ipairs {one(table.unpack(set))} do assert(result:equal(expected[i])) end
      end
   end
   return program
end

local function random_sets(n, ...)
   local sets = {}
   for i = 1, n do sets[i] = {torch.randn(...)} end
   return sets
end

local function positive(x) return x:sum():gt(0) end

describe("torch.cond", function()
   before_each(function() torch.manual_seed(1) end)

   it("calls the function that the condition asks for", function()
      local called = {}
      local function one(x) called[#called + 1] = 1 return x * 2 end
      local function other(x) called[#called + 1] = 2 return x * 3, {x} end
      assert.equal(4, torch.cond(true, one, other, {torch.tensor(2)}):item())
      assert.equal(4, torch.cond(torch.tensor({{0.5}}), one, other, {torch.tensor(2)}):item())
      local y, z = torch.cond(torch.tensor(false), one, other, {torch.tensor(2)})
      assert.same({6, 2}, {y:item(), z[1]:item()})
      assert.same({1, 1, 2}, called)
      assert.equal(7, torch.cond(torch.tensor(0), function() end, function() return 7 end))
      assert.equal(5, torch.cond(torch.tensor(1), function(t) return t.k end, error, {{k = torch.tensor(5)}}):item())
   end)

   it("has the gradients of the function that was called", function()
      for _, case in ipairs {{{1, -3}, {3, 27}}, {{4, -3}, {8, -6}}} do
         local x = torch.tensor(case[1], {dtype = "float64", requires_grad = true})
         torch.cond(positive(x), function(u) return u:square():sum() end, function(u) return (u ^ 3):sum() end,
            {x}):backward()
         assert.same(case[2], x.grad:tolist())
      end
      local x = torch.tensor {{1, 2}, {-3, 1}, {0, 5}}
      local each = torch.vmap(function(row) return torch.cond(positive(row), torch.clone, torch.neg, {row}) end)
      assert.same({{1, 2}, {3, -1}, {0, 5}}, each(x):tolist())
   end)

   it("refuses wrong arguments", function()
      local yes = torch.tensor(true)
      local function refused(text, ...)
         local arguments = table.pack(...)
         assert.raises(text, function() torch.cond(table.unpack(arguments, 1, arguments.n)) end)
      end
      refused("cond: pred: expected a boolean or a tensor of one element, got 3", 3, print, print)
      refused("cond: pred: expected a boolean or a tensor of one element, got a bool tensor of shape (2)",
         torch.ones(2):bool(), print, print)
      refused("cond: pred: expected a tensor that is not complex, got", torch.zeros(1):to "complex64", print, print)
      refused("cond: true_fn: expected a function, got 1", yes, 1, print)
      refused("cond: false_fn: expected a function, got nil", yes, print)
      refused("cond: operands: expected a list of tensors, got a float32 tensor", yes, print, print, torch.ones(1))
      refused("cond: operands.1: expected a tensor, or a table of tensors, got 1", yes, print, print, {1})
      local x = torch.ones(1)
      refused("cond: unknown option x; there are pred, true_fn, false_fn, operands", yes, print, print, {x = x})
      refused('cond: operands: expected a list, got a table with the key "y"', yes, print, print,
         {operands = {x, y = x}})
      refused("cond: expected at most 4 arguments, got 5", yes, print, print, {x}, 5)
      refused("cond: operands is given by position and by name", yes, print, print, {x}, {operands = {x}})
      assert.raises("while_loop: expected at most 3 arguments, got 4",
         function() torch.while_loop(positive, torch.neg, {x}, {x}) end)
      assert.same({-1}, torch.cond(yes, torch.neg, print, {operands = {x}}):tolist())
      assert.same({-1}, torch.cond {pred = yes, true_fn = torch.neg, false_fn = print, operands = {x}}:tolist())
   end)
end)

describe("a program with torch.cond", function()
   before_each(function() torch.manual_seed(1) end)

   it("runs the branch that the condition asks for", function()
      local program = check(function(x)
         return torch.cond(positive(x), torch.cos, function(u) return u:sin() * 2 end, {x})
      end, random_sets(20, 3))
      assert.matches([[
  cond_begin(t2)
    t3 = cos(x)
  cond_else({t3})
    t4 = sin(x)
    t5 = mul(t4, 2)
  t6 = cond_end({t5})
  return t6
]], tostring(program), 1, true)
   end)

   it("has views, constants, parameters and other branches in its branches", function()
      local model, other = nn.Linear(4, 4), nn.Linear(4, 4)
      local sets = {}
      for i = 1, 30 do sets[i] = {torch.randn(2 + i % 5, 4)} end
      check(function(x)
         -- a view is recorded where a program first uses it, which is inside a branch here
         local v, w = x[{{}, {1, 2}}], x:t()
         local y, inner = torch.cond(x:mean():gt(0), function(u)
            local a, b = torch.cond(u[{1, 1}]:lt(0), function() return v + 1, {k = w[1]} end,
               function() return v * 2, {k = w[2]} end)
            return model(u), {a, b.k, torch.ones(2)}
         end, function(u) return other(u) + v:sum(), {v, w[3], torch.zeros(2)} end, {x})
         local z = torch.cond(x:mean():lt(0), function(u) return model(u) end, function(u) return u end, {x})
         return y, inner[1], inner[2], inner[3], z + v:sum(), w:sum(), v
      end, sets, {dynamic = {x = {[1] = {name = "n", max = 9}}}})
   end)

   it("keeps each branch's memory apart, whichever way the last run took", function()
      check(function(x)
         local before = x * 3
         return torch.cond(positive(x), function(u)
            local a = u * 2
            local b = a + 1
            return b * b, before
         end, function(u)
            local a = u * 2
            local b = a + 1
            local c = b * 5
            return c + a + b, before + a
         end, {x})
      end, random_sets(60, 300))
   end)

   it("changes what a branch changes in place, and draws its random numbers", function()
      check(function(x)
         local y = x * 1
         local z = torch.cond(positive(x), function() return y:add_(1) end, function() return y * 3 end)
         return y, z
      end, random_sets(20, 3))
      local function noisy(x)
         return torch.cond(positive(x), function(u) return u + torch.rand(2) end, function(u) return u * 2 end, {x})
      end
      local program = torch.export(noisy, {torch.ones(2)})
      local results = {{}, {}}
      for k, fn in ipairs {noisy, program} do
         torch.manual_seed(3)
         for i = 1, 6 do results[k][i] = fn(torch.full({2}, i % 3 - 1.0)):tolist() end
      end
      assert.same(results[1], results[2])
   end)

   it("is not made from a model that yields, and records no other coroutine's operators", function()
      local x = torch.ones(2)
      local co = coroutine.create(function()
         torch.export(function(y)
            coroutine.yield()
            return y * 2
         end, {x})
      end)
      local ok, message = coroutine.resume(co)
      assert.is_false(ok)
      assert.matches("cond_spec.lua:%d+: export: the model yielded from the coroutine that exports it", message)
      assert.equal(1, x:sum():sub(1):item()) -- the failed export has ended its recording, so values can be read again
      coroutine.wrap(function()
         check(function(y)
            local inside = coroutine.wrap(function(z) -- a coroutine that belongs to the model
               z = coroutine.yield(z * 2)
               return z + 1
            end)
            return inside(inside(y))
         end, random_sets(2, 3))
      end)()
   end)

   it("is refused if its branches do not fit", function()
      local function refused(text, one, other, make)
         assert.error_matches(function()
            (make or torch.export)(function(x) return torch.cond(positive(x), one, other, {x}) end, {torch.ones(2)})
         end, text)
      end
      local function same(x) return x end
      refused("cond: result 1: expected from false_fn, as from true_fn, a float32 tensor of shape %(2%), got a float32 "
         .. "tensor of shape %(%)", same, torch.sum)
      refused("cond: result 1: .*got an int64 tensor", same, function(x) return x:long() end)
      refused("cond: expected results from false_fn as from true_fn, {1 = tensor, 2 = tensor}, got {1 = tensor}",
         function(x) return x, x end, same)
      refused("cond: false_fn returns nothing", same, function() end)
      refused("cond: true_fn: result 1 is nil", function() return nil, 1 end, same)
      refused("item: expected no use of a tensor's values", function(x) return x:sum():item() > 0 and x or -x end, same)
      local kept = {}
      refused("cond: a tensor that a branch has made is used outside of the branch; the branch must return it",
         function(x) kept.y = x * 2 return kept.y end, function(x) return kept.y + x end)
      assert.error_matches(function()
         torch.export(function(x)
            return torch.cond(positive(x), function() kept.y = x * 2 return kept.y end, same, {x}) + kept.y[1]
         end, {torch.ones(2)})
      end, "cond: a tensor that a branch has made is used outside")
      local outer = 0 -- luacheck: ignore
      refused("cond: true_fn assigns the variable outer outside of it, which torch.export cannot repeat",
         function(x) outer = 1 return x end, same)
      refused("cond: false_fn assigns the variable outer outside of it", same, function(x) outer = 2 return x end)
      for _, bad in ipairs {error, function() error "oh" end, function() return 1 end} do
         for _, call in ipairs {
            function(x) return pcall(torch.cond, positive(x), same, bad, {x}) end,
            function(x) return pcall(torch.cond, positive(x), bad, same, {x}) end,
            function(x) return pcall(torch.while_loop, positive, bad, {x}) end,
         } do
            assert.error_matches(function()
               torch.export(function(x)
                  assert.is_false(call(x))
                  return x
               end, {torch.ones(2)})
            end, "^export: a program cannot catch errors, but the model caught one: ")
            check(function(x) return torch.cond(positive(x), same, torch.neg, {x}) end, random_sets(3, 2))
         end
      end
      local program = torch.export(function(x) -- a failed export inside another export has no lasting effect
         assert.is_false(pcall(torch.export, error, {torch.ones(2)}))
         return torch.cond(positive(x), same, torch.neg, {x})
      end, {torch.ones(2)})
      assert.same({3, 4}, program(torch.tensor {-3.0, -4}):tolist())
      local model = nn.Linear(2, 1)
      local optimizer = torch.optim.SGD(model:parameters(), {lr = 0.1})
      assert.error_matches(function()
         torch.export_step(function(x)
            optimizer:zero_grad()
            local loss = torch.cond(positive(x), same, same, {model(x):sum()})
            loss:backward()
            optimizer:step()
            return loss:detach()
         end, {torch.ones(1, 2)}, {model = model, optimizer = optimizer})
      end, "cond: torch.export_step records no branches; torch.export does")
   end)

   it("is refused as a damaged file, and by the graph, if its marks do not fit", function()
      local program = torch.export(function(x)
         return torch.cond(positive(x), torch.cos, torch.sin, {x})
      end, {torch.ones(2)})
      local graph = program:graph()
      for _, node in ipairs(graph.nodes) do
         if node.target:find "^cond" then
            assert.error_matches(function() graph:erase_node(node) end,
               "export.Graph.erase_node: cond_.* marks a branch or a loop, and must stay")
         end
      end
      local text = program.graph_:describe()
      for from, to in pairs {
         cond_begin = "cond_else", cond_else = "cond_end", cond_end = "cond_else",
         ['%["cond_begin",%[%d+%],0%],'] = "", ['"cond_else",%[%[%d+%]%]'] = '"cond_else",[[]]',
      } do
         local damaged, n = text:gsub(from, to)
         assert.equal(1, n)
         assert.error_matches(function() torch._program_parse(damaged, {}) end, "")
      end
   end)
end)
