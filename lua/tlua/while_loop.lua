-- while_loop.lua - torch.while_loop: a loop on the value of a tensor, which torch.export records.

local torch = require "tlua"
local args = require "tlua.args"
local closures = require "tlua.export.closures"
local nested = require "tlua.export.nested"
local trace = require "tlua.export.trace"

-- Returns whether the loop goes on: cond_fn's result as a boolean.
local function truth(pred)
   if type(pred) == "boolean" then return pred end
   if not torch.is_tensor(pred) or pred.dtype ~= "bool" or pred:dim() ~= 0 then
      args.refuse("while_loop", "the result of cond_fn",
         "a boolean or a bool tensor without dimensions", pred)
   end
   return pred:item()
end

-- Calls body_fn, and checks that its results have the structure, shapes and dtypes of the carried
-- values. Returns the results and their tensors.
local function next_of(body_fn, carried, structure, tensors)
   local results, list = table.pack(body_fn(table.unpack(carried))), {}
   if results.n ~= #carried then
      torch.raise(("while_loop: expected %d results from body_fn, one for each carried input, got "
         .. "%d"):format(#carried, results.n))
   end
   results.n = nil
   local given = nested.flatten("while_loop", "results of body_fn", results, list)
   if not nested.same(given, structure) then
      torch.raise("while_loop: expected results from body_fn with the structure of the carried "
         .. "inputs")
   end
   for i, x in ipairs(tensors) do
      local y = list[i]
      if x.dtype ~= y.dtype or x.shape ~= y.shape or x.device ~= y.device then
         torch.raise(("while_loop: result %d of body_fn: expected %s, as the carried input, got %s")
            :format(i, args.describe(x), args.describe(y)))
      end
   end
   return results, list
end

local function record(cond_fn, body_fn, structure, tensors)
   if trace.step then
      torch.raise "while_loop: torch.export_step records no loops; torch.export does"
   end
   local _ <close> = trace.watch()
   local recorder = trace.recorder
   local inside = recorder:loop(tensors)
   local carried = nested.unflatten(structure, inside, 1)
   local check_cond = closures("while_loop", "cond_fn", cond_fn)
   local check_body = closures("while_loop", "body_fn", body_fn)
   local pred = cond_fn(table.unpack(carried))
   if type(pred) == "boolean" then
      torch.raise("while_loop: expected a tensor from cond_fn, which torch.export records, got a "
         .. "boolean")
   end
   if not torch.is_tensor(pred) or pred.dtype ~= "bool" or pred:dim() ~= 0 then
      args.refuse("while_loop", "the result of cond_fn", "a bool tensor without dimensions", pred)
   end
   recorder:test(pred)
   local _, list = next_of(body_fn, carried, structure, inside)
   check_cond()
   check_body()
   recorder:again(list)
   return table.unpack(carried)
end

local take = args.signature "while_loop(cond_fn: any?, body_fn: any?, carried_inputs: any)"

--- Calls body_fn as long as cond_fn returns true: the first time with the carried inputs, then with
--- its own results. Both functions get the carried values, and body_fn returns as many values, of
--- the same shapes and dtypes. Gradients flow through all calls. torch.export records the loop, and
--- its program repeats the calls of both functions until the condition is false for the program's
--- own values. Therefore the functions must change nothing but tensors. torch.onnx.export writes
--- the operator Loop; a step of torch.export_step records no while_loop.
---
---     local function below(x) return x:sum():lt(100) end
---     local function double(x) return x * 2 end
---     local function f(x) return torch.while_loop(below, double, {x}) end
---     local program = torch.export(f, {torch.ones(2)})
---     print(f(torch.ones(2)), program(torch.tensor {3, 1.5}))
---     --> tensor([64., 64.])	tensor([96., 48.])
---@param cond_fn function  returns a boolean or a bool tensor without dimensions
---@param body_fn function  returns as many values as it gets
---@param carried_inputs table  a list of tensors, or of tables of tensors
---@return any ...  the results of the last call of body_fn; without a call, copies of the inputs
return function(...)
   local a = take(...)
   local cond_fn, body_fn, carried_inputs = a.cond_fn, a.body_fn, a.carried_inputs
   if not args.is_callable(cond_fn) then
      args.refuse("while_loop", "cond_fn", "a function", cond_fn)
   end
   if not args.is_callable(body_fn) then
      args.refuse("while_loop", "body_fn", "a function", body_fn)
   end
   if type(carried_inputs) ~= "table" or getmetatable(carried_inputs) or #carried_inputs == 0 then
      args.refuse("while_loop", "carried_inputs", "a list of tensors", carried_inputs)
   end
   local tensors = {}
   local structure = nested.flatten("while_loop", "carried_inputs", carried_inputs, tensors)
   if trace.recorder then return record(cond_fn, body_fn, structure, tensors) end
   for i, x in ipairs(tensors) do tensors[i] = x:clone() end
   local carried = nested.unflatten(structure, tensors, 1)
   while truth(cond_fn(table.unpack(carried))) do
      carried, tensors = next_of(body_fn, carried, structure, tensors)
   end
   return table.unpack(carried)
end
