-- Tests that a program reads the right elements of its inputs and constants when they are views, which begin at an
-- offset in their storages.
local torch = require "tlua"
local saved = require("spec.support.programs").saved

local rows <const> = torch.arange(1, 25, {dtype = "float32"}):reshape(4, 6)

-- Exports a function for the first list of arguments, and saves the program. Checks that the program's results equal
-- the function's for all lists of arguments.
local function check(fn, list, options)
   local program = torch.export(fn, list[1], options)
   for _, run in ipairs {program, saved(program)} do
      for _, given in ipairs(list) do
         assert.same(fn(table.unpack(given)):tolist(), run(table.unpack(given)):tolist())
      end
   end
end

local function each_row()
   local list = {}
   for k = 1, 4 do list[k] = {rows[k]} end
   return list
end

describe("a program", function()
   it("takes elements of inputs that are parts of larger tensors", function()
      for _, fn in ipairs {
         function(x) return x[2] * 2 end, function(x) return x[{{3, 5}}] + x[-1] end, function(x) return x.data * 2 end,
         function(x) return x:view(2, 3)[{2, {2, 3}}] * x[1] end, function(x) return x:view(2, 3).data[2] + 1 end,
         function(x) return x[{{1, 6, 2}}] * 1 end,
      } do
         check(fn, each_row())
         check(fn, {{rows[3]}, {rows[1]}})
      end
   end)

   it("takes them with sizes that change, and in branches and loops", function()
      local list = {}
      for k, part in ipairs {{1, 3}, {2, 4}, {2, 3}, {1, 4}, {3, 4}} do list[k] = {rows[{part}]} end
      check(function(x) return x[-1] + x[{{}, {2, 3}}]:sum() + x[{1, 2}] end, list, {dynamic = {x = {1}}})
      check(function(x)
         return torch.cond(x:sum():gt(40), function(u) return u[2] + x[3] end, function(u) return u[3] * 2 end, {x})
      end, each_row())
      check(function(x)
         return torch.while_loop(function(y) return y:lt(100) end, function(y) return y * 2 + x[4] end, {x[2]})
      end, each_row())
   end)

   it("has constants that are parts of larger tensors, of any strides", function()
      local part, narrow, turned = rows[{{3, 4}}], rows[{{2, 4}, {2, 5}}], rows:t()[{{2, 5}}]
      check(function(x) return (part * x):sum() + part[2] * x end, each_row())
      check(function(x) return part[2] * x + (part * x):sum() end, each_row())
      check(function(x) return x[1] * narrow + narrow[2] * x[2] + narrow[{{2, 3}, {2, 2}}]:sum() end, each_row())
      check(function(x) return x[1] * turned + turned[2] * x[2] + turned[{{}, {3, 3}}]:sum() end, each_row())
   end)

   it("does not take a constant or an input for a part of another input with the same storage", function()
      local function fn(a, b) return a:sum() * 100 + b[2] * 10 + rows[{3, 1}] end
      local program = torch.export(fn, {rows, rows[2]})
      assert.equal(fn(rows * 2, rows[4]):item(), program(rows * 2, rows[4]):item())
   end)

   it("refuses a place in the memory of a view of an input", function()
      assert.error_matches(function()
         torch.export(function(x) return x:view(2, 3):as_strided({2}, {1}, 1) * 1 end, {rows[1]})
      end, "as_strided: it takes a place in the memory of another tensor, so torch.export cannot record it")
   end)
end)

it("a training step takes elements of batches that are parts of larger tensors", function()
   local w = torch.ones(1, {requires_grad = true})
   local optimizer = torch.optim.SGD({w}, {lr = 0.5})
   local function step(x)
      local loss = (w * x[2] + x[{{3, 4}}].data:sum()):sum()
      optimizer:zero_grad()
      loss:backward()
      optimizer:step()
      return loss
   end
   local program = torch.export_step(step, {rows[1]}, {optimizer = optimizer})
   local value = w:item()
   for k = 1, 4 do
      assert.equal(value * rows[{k, 2}]:item() + rows[{k, {3, 4}}]:sum():item(), program(rows[k]):item())
      value = value - 0.5 * rows[{k, 2}]:item()
   end
end)
