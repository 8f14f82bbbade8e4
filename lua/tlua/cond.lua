-- cond.lua - torch.cond: a branch on the value of a tensor, which torch.export records.

local torch = require "tlua"
local args = require "tlua.args"
local closures = require "tlua.export.closures"
local nested = require "tlua.export.nested"
local trace = require "tlua.export.trace"

-- Calls a branch. Returns the structure of its results (see nested.flatten), and the list of the
-- tensors among them.
local function results_of(title, branch, operands)
   local results, list = table.pack(branch(table.unpack(operands))), {}
   for i = 1, results.n do
      if results[i] == nil then torch.raise(("cond: %s: result %d is nil"):format(title, i)) end
   end
   if results.n == 0 then torch.raise(("cond: %s returns nothing"):format(title)) end
   results.n = nil
   return nested.flatten("cond", title, results, list), list
end

-- Returns a text that describes the structure of results: equal structures have equal texts.
local function shape_of(structure)
   if structure == 0 then return "tensor" end
   local parts = {}
   for i, entry in ipairs(structure) do
      parts[i] = ("%s = %s"):format(entry[1], shape_of(entry[2]))
   end
   return "{" .. table.concat(parts, ", ") .. "}"
end

local function check_same(first, list, second, others)
   local a, b = shape_of(first), shape_of(second)
   if a ~= b then
      torch.raise(("cond: expected results from false_fn as from true_fn, %s, got %s"):format(a,
         b))
   end
   for i, x in ipairs(list) do
      local y = others[i]
      if x.dtype ~= y.dtype or x.shape ~= y.shape or x.device ~= y.device then
         torch.raise(("cond: result %d: expected from false_fn, as from true_fn, %s, got %s")
            :format(i, args.describe(x), args.describe(y)))
      end
   end
end

-- Records both branches of torch.cond for torch.export. Returns results that stand for those of the
-- branch that a program will run.
local function record(pred, true_fn, false_fn, operands)
   if trace.step then
      torch.raise "cond: torch.export_step records no branches; torch.export does"
   end
   local _ <close> = trace.watch()
   local recorder = trace.recorder
   recorder:branch(pred)
   local check_true = closures("cond", "true_fn", true_fn)
   local first, list = results_of("true_fn", true_fn, operands)
   check_true()
   recorder:otherwise(list)
   local check_false = closures("cond", "false_fn", false_fn)
   local second, others = results_of("false_fn", false_fn, operands)
   check_false()
   check_same(first, list, second, others)
   local results = nested.unflatten(first, recorder:join(others), 1)
   return table.unpack(results, 1, #first)
end

local function check_operands(operands)
   if type(operands) ~= "table" or getmetatable(operands) then
      args.refuse("cond", "operands", "a list of tensors", operands)
   end
   nested.flatten("cond", "operands", operands, {})
   for key in pairs(operands) do
      if math.type(key) ~= "integer" or key < 1 or key > #operands then
         torch.raise(("cond: operands: expected a list, got a table with the key %s"):format(
            args.describe(key)))
      end
   end
end

local take = args.signature "cond(pred: any?, true_fn: any?, false_fn: any?, operands: any?)"

--- Calls the first function if pred is true, and otherwise the second. Only the selected function
--- is called and checked. Gradients flow through the function that was called. Unlike an `if` on
--- pred:item(), torch.export records both functions, and its program runs the function that pred
--- selects. An ONNX file of torch.onnx.export does the same by the operator If. Both functions must
--- then return tensors of the same shapes and dtypes; a step of torch.export_step records no cond.
--- If pred is a Lua boolean instead of a tensor, only the selected function is recorded.
---
---     local function f(x)
---        local function cos(y) return y:cos() end
---        local function sin(y) return y:sin() end
---        return torch.cond(x:sum():gt(0), cos, sin, {x})
---     end
---     local program = torch.export(f, {torch.ones(2)})
---     print(f(torch.zeros(2)), program(torch.zeros(2)))
---     --> tensor([0., 0.])	tensor([0., 0.])
---@param pred Tensor|boolean  a tensor of one element
---@param true_fn function  gets the operands, and returns tensors, or tables of tensors
---@param false_fn function  like true_fn
---@param operands? table  a list of tensors, or of tables of tensors
---@return any ...  the results of the function that was called
return function(...)
   local a = take(...)
   local pred, true_fn, false_fn, operands = a.pred, a.true_fn, a.false_fn, a.operands
   if operands == nil then operands = {} end
   local is_tensor = torch.is_tensor(pred)
   if is_tensor and pred:numel() ~= 1 or not is_tensor and type(pred) ~= "boolean" then
      args.refuse("cond", "pred", "a boolean or a tensor of one element", pred)
   end
   if is_tensor and pred:is_complex() then
      args.refuse("cond", "pred", "a tensor that is not complex", pred)
   end
   if not args.is_callable(true_fn) then args.refuse("cond", "true_fn", "a function", true_fn) end
   if not args.is_callable(false_fn) then
      args.refuse("cond", "false_fn", "a function", false_fn)
   end
   check_operands(operands)
   if is_tensor and trace.recorder then return record(pred, true_fn, false_fn, operands) end
   if is_tensor then
      pred = pred:item()
      pred = pred ~= 0 and pred ~= false
   end
   return (pred and true_fn or false_fn)(table.unpack(operands))
end
