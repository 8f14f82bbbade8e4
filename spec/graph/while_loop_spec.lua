-- Tests torch.while_loop: alone, with gradients, and in exported programs, whose loops must compute the same as the Lua
-- functions.

local torch = require "tlua"

-- Exports a function, and compares the program, the reloaded program and the rewritten program with the function.
local function check(fn, sets, options)
   local program = torch.export(fn, sets[1], options)
   local path <const> = os.tmpname()
   program:save(path)
   local programs = {program, torch.export.load(path), program:graph():program()}
   os.remove(path)
   for _, set in ipairs(sets) do
      local expected = {fn(table.unpack(set))}
      for _, one in ipairs(programs) do
         for i, result in ipairs {one(table.unpack(set))} do assert(result:equal(expected[i])) end
      end
   end
   return program
end

local function sets_of(n, make)
   local sets = {}
   for i = 1, n do sets[i] = {make(i)} end
   return sets
end

local function below(limit) return function(x) return x:sum():lt(limit) end end

describe("torch.while_loop", function()
   before_each(function() torch.manual_seed(1) end)

   it("calls body_fn as long as cond_fn says", function()
      local n, x = torch.while_loop(function(n) return n:lt(5) end, function(n, x) return n + 1, x * 2 end,
         {torch.tensor(2), torch.ones(2)})
      assert.equal(5, n:item())
      assert.same({8, 8}, x:tolist())
      local y = torch.ones(2)
      local same = torch.while_loop(function() return false end, error, {y})
      assert.same({1, 1}, same:tolist())
      same:zero_() -- a copy
      assert.same({1, 1}, y:tolist())
      local state = torch.while_loop(function(s) return s.a:lt(9) end, function(s) return {a = s.a * 2, b = s.a} end,
         {{a = torch.tensor(1), b = torch.tensor(0)}})
      assert.same({16, 8}, {state.a:item(), state.b:item()})
   end)

   it("has gradients through all calls", function()
      local x = torch.tensor({1, 2}, {dtype = "float64", requires_grad = true})
      local y = torch.while_loop(below(50), function(u) return u * u + 1 end, {x})
      y:sum():backward()
      assert.same({{26, 677}, {80, 2080}}, {y:tolist(), x.grad:tolist()})
   end)

   it("refuses wrong arguments, conditions and results", function()
      local x = torch.ones(2)
      local function refused(text, ...)
         local arguments = table.pack(...)
         assert.raises(text, function() torch.while_loop(table.unpack(arguments, 1, arguments.n)) end)
      end
      local function same(...) return ... end
      refused("while_loop: cond_fn: expected a function, got 1", 1, same, {x})
      refused("while_loop: body_fn: expected a function, got nil", below(9), nil, {x})
      refused("while_loop: carried_inputs: expected a list of tensors, got a float32 tensor", below(9), same, x)
      refused("while_loop: carried_inputs: expected a list of tensors, got", below(9), same, {})
      refused("while_loop: carried_inputs.1: expected a tensor, or a table of tensors, got 1", below(9), same, {1})
      refused("while_loop: the result of cond_fn: expected a boolean or a bool tensor without dimensions, got 1",
         function() return 1 end, same, {x})
      refused("while_loop: the result of cond_fn: expected a boolean or a bool tensor without dimensions, got a bool "
         .. "tensor of shape (2)", function(u) return u:lt(2) end, same, {x})
      refused("while_loop: expected 1 results from body_fn, one for each carried input, got 2", below(9),
         function(u) return u, u end, {x})
      refused("while_loop: result 1 of body_fn: expected a float32 tensor of shape (2), as the carried input, got a "
         .. "float32 tensor of shape ()", below(9), torch.sum, {x})
      refused("while_loop: expected results from body_fn with the structure of the carried inputs", below(9),
         function(u) return {u} end, {x})
   end)
end)

describe("a program with torch.while_loop", function()
   before_each(function() torch.manual_seed(1) end)

   it("repeats its calls as often as the values ask for", function()
      local program = check(function(x)
         return torch.while_loop(below(100), function(u) return u * 1.5 + 1 end, {x})
      end, sets_of(20, function(i) return torch.rand(3) * i * 3 end))
      assert.matches([[
  t1 = loop_begin({x})
    t2 = sum(t1)
    t3 = lt(t2, 100)
  loop_test(t3)
    t4 = mul(t1, 1.5)
    t5 = add(t4, 1, alpha = 1)
  loop_end({t5})
  return t1
]], tostring(program), 1, true)
   end)

   it("has views, values from outside, branches and dynamic sizes in its loops", function()
      check(function(x)
         local two, v = x * 0 + 2, x[{{1, 2}}]
         local a, n = torch.while_loop(function(y, n) return y:sum():lt(100) & n:lt(20) end, function(y, n)
            local z = torch.cond(n:remainder(2):eq(0), function() return y * 1.5 + v:sum() end,
               function() return y + two * 3 end)
            return z + 1, n + 1
         end, {x, torch.tensor(0)})
         return a + v:sum(), n, two, x:sum()
      end, sets_of(40, function(i) return torch.randn(2 + i % 4) * (i % 7) end),
      {dynamic = {x = {[1] = {min = 2, max = 50}}}})
   end)

   it("has loops in its loops and branches, and carries what they do not change", function()
      local function inner(i, y, x)
         local _, s = torch.while_loop(function(j) return j:lt(i + 2) end,
            function(j, s) return j + 1, s * 2 + x end, {torch.tensor(0), y})
         return s
      end
      check(function(x)
         local _, y, u = torch.while_loop(function(i) return i:lt(3) end,
            function(i, y, u) return i + 1, inner(i, y, x), u end, {torch.tensor(0), x, x + 1})
         return y, u, torch.cond(x:sum():gt(0), function() return inner(torch.tensor(1), y, x) end,
            function() return y end)
      end, sets_of(30, function() return torch.randn(3) end))
   end)

   it("changes buffers as often as the functions do, and draws their random numbers", function()
      local function f(x)
         local y = x * 1
         local n = torch.while_loop(function(n) return n:lt(x:sum()) end, function(n)
            y:add_(torch.rand(2))
            return n + 1
         end, {torch.tensor(0)})
         return y, n
      end
      local program = torch.export(f, {torch.ones(2)})
      for i = 0, 6 do
         local x, results = torch.full({2}, i / 2), {}
         for k, fn in ipairs {f, program} do
            torch.manual_seed(3)
            local y, n = fn(x)
            results[k] = {y:tolist(), n:item()}
         end
         assert.same(results[1], results[2])
      end
   end)

   it("is refused if its functions assign variables outside, also if the example's loop runs once", function()
      for what, assigns in pairs {cond_fn = {true, false}, body_fn = {false, true}} do
         local k, total = 1, torch.zeros(2)
         local function unfinished(u)
            if assigns[1] then k = k + 1 end
            return u:sum():lt(3)
         end
         local function next_one(u)
            if assigns[2] then total = total + u end
            return u * 2
         end
         assert.error_matches(function()
            torch.export(function(x) return torch.while_loop(unfinished, next_one, {x}), total end, {torch.ones(2)})
         end, ("while_loop: %s assigns the variable %s outside of it, which torch.export cannot repeat; return "
            .. "a tensor instead"):format(what, what == "cond_fn" and "k" or "total"))
      end
   end)

   it("is refused if it could not repeat the functions", function()
      local function refused(text, cond_fn, body_fn)
         assert.error_matches(function()
            torch.export(function(x) return torch.while_loop(cond_fn, body_fn, {x}) end, {torch.ones(2)})
         end, text)
      end
      local function double(u) return u * 2 end
      refused("while_loop: expected a tensor from cond_fn, which torch.export records, got a boolean",
         function() return false end, double)
      refused("while_loop: the result of cond_fn: expected a bool tensor without dimensions, got a bool tensor",
         function(u) return u:lt(3) end, double)
      refused("while_loop: result 1 of body_fn: expected a float32 tensor of shape", below(9), torch.sum)
      refused("item: expected no use of a tensor's values", below(9), function(u) return u * u:sum():item() end)
      assert.error_matches(function()
         torch.export(function(x)
            local k = {0}
            return torch.while_loop(below(50), function(u)
               k[1] = k[1] + 1
               return u * 2 + k[1]
            end, {x})
         end, {torch.ones(2)})
      end, "export: result 1 of the program has other values than the model's; a function of torch.cond or "
         .. "torch.while_loop changes something besides tensors")
      assert.error_matches(function()
         torch.export(function(x)
            local k = {1}
            local y = torch.cond(x:sum():gt(0), function() k[1] = 2 return x * 1 end, function() return x * 3 end)
            return y * k[1]
         end, {torch.ones(2)})
      end, "export: result 1 of the program has other values than the model's")
   end)

   it("ends at the limits of a run, which a caller sets", function()
      local function count(n) return (n + 1):clamp({max = 1000}) end
      local program = torch.export(function(n) return torch.while_loop(below(5), count, {n}) end, {torch.tensor(0)})
      assert.equal(program, program:set_limits {iterations = 4})
      local function refused(text, fn, ...)
         local arguments = table.pack(...)
         assert.raises(text, function() fn(table.unpack(arguments, 1, arguments.n)) end)
      end
      refused("program: its loops expected to end within 4 iterations, the limit of a run "
         .. "(tl_program_set_limits, program:set_limits)", program, torch.tensor(0))
      assert.equal(5, program(torch.tensor(1)):item())
      -- a program that is made from this program must have its limits too
      for _, other in ipairs {program:to(program.device), program:graph():program()} do
         refused("program: its loops expected to end within 4 iterations", other, torch.tensor(0))
      end
      program:set_limits {iterations = 0}
      assert.equal(5, program(torch.tensor(-100)):item())
      -- a file that was changed so that its loop never ends
      local text, n = program.graph_:describe():gsub('"numbers":%[5,', '"numbers":[5000,')
      assert.equal(1, n)
      local damaged = getmetatable(torch.export).wrap(torch._program_parse(text, {}, program.device))
      damaged:set_limits {seconds = 0.05}
      refused("program: expected a run of at most 0.05 seconds (tl_program_set_limits, program:set_limits)",
         damaged, torch.tensor(0))
      damaged:set_limits {seconds = 0, iterations = 3000}
      refused("expected to end within 3000 iterations", damaged, torch.tensor(0))
      refused("set_limits: iterations: expected an integer of at least 0, got -1", program.set_limits, program,
         {iterations = -1})
      refused("set_limits: seconds: expected a number of at least 0, got \"x\"", program.set_limits, program,
         {seconds = "x"})
      refused("set_limits: unknown option iteration", program.set_limits, program, {iteration = 1})
      refused("set_limits: limits: expected a table, got nil", program.set_limits, program)
   end)

   it("is refused if a value of a loop or a branch is used outside of it, or if marks are nested too deep", function()
      local function double(u) return u * 2 end
      local program = torch.export(function(x)
         local y = torch.while_loop(below(9), double, {x})
         return y + 1
      end, {torch.ones(2)})
      local text = program.graph_:describe()
      local outside, n = text:gsub('%["add",%[(%d+),', function(at) return '["add",[' .. at + 2 .. "," end)
      assert.equal(1, n)
      assert.raises("program: a value of a branch or a loop is used outside of it",
         function() torch._program_parse(outside, {}) end)
      local begins, ends = ('["cond_begin",[0],0],'):rep(300), ('["cond_else",[[]],0],["cond_end",[[]],0],'):rep(300)
      local deep = text:gsub('"calls":%[', function(start) return start .. begins .. ends end)
      assert.raises("nested at most 256 deep", function() torch._program_parse(deep, {}) end)
   end)

   it("is refused as a damaged file if its marks do not fit", function()
      local function double(u) return u * 2 end
      local program = torch.export(function(x) return torch.while_loop(below(9), double, {x}) end, {torch.ones(2)})
      local text = program.graph_:describe()
      assert(torch._program_parse(text, {}))
      for from, to in pairs {
         loop_begin = "loop_end", loop_test = "cond_begin", loop_end = "cond_end", ['"loop_end",%[%[%d+%]%]'] =
            '"loop_end",[[]]', ['%["loop_test",%[%d+%],0%],'] = "",
      } do
         local damaged, n = text:gsub(from, to)
         assert.equal(1, n)
         assert.error_matches(function() torch._program_parse(damaged, {}) end, "")
      end
   end)
end)
