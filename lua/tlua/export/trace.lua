-- trace.lua - traces a function: calls it with example inputs, and records the operators that it
-- calls (src/graph/call_recorder.c). More calls, with other values and other sizes, show what
-- depends on the inputs.

local torch = require "tlua"
local args = require "tlua.args"
local callees = require "tlua.export.calls"
local class = require "tlua.class"
local json = require "tlua.utils.json"
local nested = require "tlua.export.nested"
local reads = require "tlua.export.reads"
local lua_changes = require "tlua.export.changes"
local strided = require "tlua.export.strided"

-- `recorder` is the trace of the running call, `step` whether that call is a training step, and
-- `failure` the first error while torch.cond or torch.while_loop was recorded.
local M = {}

local watch <const> = setmetatable({}, {__close = function(_, problem)
   if problem == nil then return end
   M.failure = M.failure or type(problem) == "string" and problem or torch.type(problem)
end})

--- Returns a scope in which torch.cond or torch.while_loop is recorded. If the scope ends with an
--- error, the trace fails, even if the model catches the error.
function M.watch() return watch end

-- Returns the names of a function's parameters, without `self` for a method.
local function parameter_names(model)
   local fn, first = model, 1
   if type(model) == "table" then fn, first = model.forward, 2 end
   local names = {}
   if type(fn) ~= "function" then return names end
   local i = first
   while true do
      local name = debug and debug.getlocal(fn, i)
      if not name then return names end
      names[#names + 1] = name
      i = i + 1
   end
end

--- Checks the options of an export. `...` are the allowed names besides `dynamic` and `names`.
---@return table options
function M.check_options(title, options, ...)
   args.check_options(title, options, "dynamic", "names", ...)
   local names = options and options.names
   if names ~= nil and type(names) ~= "table" then
      args.refuse(title, "names", "a list of names", names)
   end
   return options or {}
end

--- Returns the arguments' tensors, their names, and their structure.
function M.read_inputs(title, model, inputs, own_names)
   if torch.is_tensor(inputs) then inputs = {inputs} end
   if type(inputs) ~= "table" or getmetatable(inputs) then
      args.refuse(title, "inputs", "a list of the arguments", inputs)
   end
   local given = own_names or parameter_names(model)
   local tensors, names, structure = {}, {}, json.as_array {}
   for i, value in ipairs(inputs) do
      local name = given[i] or ("input_%d"):format(i)
      structure[i] = json.as_array {i, nested.flatten(title, name, value, tensors, names)}
   end
   -- The inputs get memory of their own, so that a view of another tensor of the model is not
   -- mistaken for a view of an input.
   for i, tensor in ipairs(tensors) do
      local plain = tensor:detach():contiguous()
      local shares = torch._storage_key(plain) == torch._storage_key(tensor)
      tensors[i] = shares and plain:clone() or plain
   end
   return tensors, names, structure
end

-- Returns the arguments of a call, in which the tensors of the list replace the example's tensors.
local function arguments(call, tensors)
   local inputs = nested.unflatten(call.inputs, tensors, 1)
   return table.unpack(inputs, 1, #call.inputs)
end

--- Calls the function without recording.
function M.call(call, tensors) return call.model(arguments(call, tensors)) end

local function results_of(call, fine, ...)
   if fine then return ... end
   local problem = ...
   if problem == "attempt to yield across a C-call boundary" then
      torch.raise(call.title .. ": the model yielded from the coroutine that exports it; operators "
         .. "of other coroutines would be recorded as its own")
   end
   error(problem, 0)
end

-- Calls the function so that it cannot yield, because a suspended call might never be resumed.
local function call_model(call, ...)
   return results_of(call, torch._batched_call(call.model, ...))
end

-- Calls the function with the given tensors, and returns a graph of the operators that it has
-- called.
local function record(call, tensors)
   if call.begin then call.begin() end
   local recorder <close> = torch._trace(call.step or false, call.live or false)
   M.recorder, M.step, M.failure = recorder, call.step, nil
   for i, tensor in ipairs(tensors) do recorder:input(call.names[i], tensor) end
   for _, entry in ipairs(call.named) do recorder:name(entry[1], entry[2], entry[3] or false) end
   local inputs = table.pack(arguments(call, tensors))
   recorder:record()
   local results = table.pack(call_model(call, table.unpack(inputs, 1, inputs.n)))
   local outputs, list = {}, {}
   for i = 1, results.n do list[i] = results[i] end
   if M.failure then
      torch.raise(("%s: a program cannot catch errors, but the model caught one: %s"):format(
         call.title, M.failure))
   end
   if results.n == 0 then torch.raise(call.title .. ": the model returns nothing") end
   for i = 1, results.n do
      if list[i] == nil then
         torch.raise(("%s: result %d of the model is nil"):format(call.title, i))
      end
   end
   local structure = nested.flatten(call.title, "result", list, outputs)
   if call.keep then call.keep(outputs) end
   return recorder:finish(outputs, call.training,
                          json.encode {inputs = call.inputs, outputs = structure})
end

-- Waits for the device of the tensors. If a call failed on the device, raises its error.
local function wait(tensors)
   for _, tensor in ipairs(tensors) do
      if tensor.device.type ~= "cpu" then return torch.zeros(1, {device = tensor.device}):item() end
   end
end

--- Records a call. call.reset(), if any, is called afterwards, to undo the call's effects.
function M.record(call, tensors)
   local recorder, step, failure = M.recorder, M.step, M.failure
   local fine, result = pcall(record, call, tensors)
   if fine then
      local waited, message = pcall(wait, tensors)
      if not waited then fine, result = false, message end
   end
   M.recorder, M.step, M.failure = recorder, step, failure
   if call.reset then call.reset() end
   if not fine then error(result, 0) end
   return result
end

-- Returns tensors with other values: the elements in reverse order, or 1 added to a tensor of one
-- element. `changes` tells which tensors change: "all", "floats" or "none".
local function with_other_values(tensors, changes)
   local list = {}
   for i, tensor in ipairs(tensors) do
      local floating = tensor:is_floating_point()
      if changes == "none" or changes == "floats" and not floating then
         list[i] = tensor
      elseif tensor:numel() < 2 then
         list[i] = floating and tensor + 1 or tensor
      else
         list[i] = strided.reversed(tensor)
      end
      if tensor.requires_grad and not rawequal(list[i], tensor) then
         list[i] = list[i]:detach():requires_grad_()
      end
   end
   return list
end

--- Records a call with values that differ from the tensors'. If the function fails, for example
--- because an integer tensor of lengths must be sorted, only floating-point tensors are changed,
--- and at last none.
function M.record_other_values(call, tensors)
   local fine, result
   for _, changes in ipairs {"all", "floats", "none"} do
      fine, result = pcall(M.record, call, with_other_values(tensors, changes))
      if fine then return result end
   end
   error(result, 0)
end

--- Returns tensors that have another size in the dimensions listed in `places`. If the new size is
--- larger, the elements are repeated from the beginning.
function M.with_size(tensors, places, size)
   local list = {table.unpack(tensors)}
   for _, place in ipairs(places) do
      local old = list[place.input]:size(place.dim)
      local positions = torch.arange(size, {dtype = "int64", device = list[place.input].device})
         :remainder(old) + 1
      local tensor = list[place.input]:index_select(place.dim, positions)
      if list[place.input].requires_grad then tensor = tensor:detach():requires_grad_() end
      list[place.input] = tensor
   end
   return list
end

-- Dynamic sizes -------------------------------------------------------------------------------

local function check_dim(name, tensor, dim)
   local n = tensor:dim()
   if math.type(dim) ~= "integer" or dim == 0 or dim > n or dim < -n then
      args.refuse("export", "dynamic: " .. name, ("dimensions of a tensor with %d"):format(n), dim)
   end
   return dim > 0 and dim or dim + n + 1
end

-- Without a range, a size may be up to TIMES times the example's size, or up to AT_LEAST if that is
-- more.
local TIMES <const>, AT_LEAST <const> = 16, 64

-- Returns a dynamic size: its name, and the range that the user gave.
local function read_symbol(name, dim, value)
   local symbol = {name = ("%s_%d"):format(name, dim)}
   if type(value) == "string" then symbol.name = value end
   if type(value) ~= "table" then return symbol end
   args.check_options("export: dynamic: " .. name, value, "name", "min", "max")
   for _, bound in ipairs {"min", "max"} do
      local size = value[bound]
      if size ~= nil and (math.type(size) ~= "integer" or size < 1) then
         args.refuse("export", ("dynamic: %s: %s"):format(name, bound), "a size of at least 1",
            size)
      end
   end
   if value.name ~= nil and type(value.name) ~= "string" then
      args.refuse("export", ("dynamic: %s: name"):format(name), "a string", value.name)
   end
   symbol.name, symbol.min, symbol.max = value.name or symbol.name, value.min, value.max
   return symbol
end

-- Returns the dimensions of one input that are dynamic, as pairs {dim, symbol}. In `dynamic`,
-- {1, 3} stands for two independent sizes, {[1] = "batch"} for a size with a name, and
-- {[1] = {max = 512}} for a size with a range.
local function read_dims(name, dims, tensor)
   if type(dims) == "number" then dims = {dims} end
   if type(dims) ~= "table" then
      args.refuse("export", "dynamic: " .. name, "a list of dimensions", dims)
   end
   local list = {}
   for _, key in ipairs(nested.sorted_keys(dims)) do
      local value = dims[key]
      local dim = check_dim(name, tensor, type(value) == "number" and value or key)
      list[#list + 1] = {dim, read_symbol(name, dim, value)}
   end
   return list
end

--- Returns a list of the dynamic sizes, in the order of the inputs. An item is {name = ..., {input
--- = ..., dim = ...}, ...}: the dimensions that have this size.
function M.read_dynamic(dynamic, names, tensors)
   if dynamic == nil then dynamic = {} end
   if type(dynamic) ~= "table" then args.refuse("export", "dynamic", "a table", dynamic) end
   local known, symbols = {}, {}
   for i, name in ipairs(names) do known[name] = i end
   for name in pairs(dynamic) do
      if not known[name] then args.unknown_option("export: dynamic", name, known) end
   end
   for i, name in ipairs(names) do
      for _, pair in ipairs(dynamic[name] and read_dims(name, dynamic[name], tensors[i]) or {}) do
         local given = pair[2]
         local symbol = symbols[given.name]
         if not symbol then
            symbol = given
            symbols[#symbols + 1], symbols[given.name] = symbol, symbol
         end
         symbol.min, symbol.max = symbol.min or given.min, symbol.max or given.max
         symbol[#symbol + 1] = {input = i, dim = pair[1]}
      end
   end
   return symbols
end

-- Returns the value of a dynamic size in the example, and the lower and the upper limit of the
-- size.
local function range_of(tensors, symbol)
   local size = tensors[symbol[1].input]:size(symbol[1].dim)
   local title = "dynamic: " .. symbol.name
   if size < 1 then args.refuse("export", title, "a size of at least 1", size) end
   local least, most = symbol.min or 1, symbol.max or math.max(TIMES * size, AT_LEAST)
   if size < least or size > most then
      args.refuse("export", title, ("an example with a size from %d to %d"):format(least, most),
         size)
   end
   return size, least, most
end

-- Raises an error unless a call with another value of a dynamic size, whose graph is `other`, calls
-- the same operators as `graph`.
local function check_size(graph, number, symbol, size, other)
   local fine, message = pcall(graph.fits, graph, number, size, other)
   if fine then return end
   torch.raise(("%s; the call with %s = %d differs from that of the example"):format(
      tostring(message):gsub("^[^:]*:%d+: ", ""), symbol.name, size))
end

-- Raises an error unless a call with other values of all dynamic sizes, whose graph is `other`,
-- calls the same operators as `graph`.
local function check_sizes(graph, symbols, sizes, other)
   local fine, message = pcall(graph.fits_all, graph, sizes, other)
   if fine then return end
   local list = {}
   for i, symbol in ipairs(symbols) do list[i] = ("%s = %d"):format(symbol.name, sizes[i]) end
   torch.raise(("%s; the call with %s differs from that of the example"):format(
      tostring(message):gsub("^[^:]*:%d+: ", ""), table.concat(list, ", ")))
end

-- Records a call with the largest size. If the user has given no limit and the function fails, for
-- example because a table of positions has fewer rows, records a call with half the size, and so
-- on. Returns the size that succeeded, and the graph.
local function record_largest(at, symbol, size, most)
   while true do
      local fine, result = pcall(at, most)
      if fine then return most, result end
      if symbol.max or most <= size then error(result, 0) end
      most = math.max(most // 2, size)
   end
end

-- Limits of the calls that try all sizes of a range: their number, and the elements that their
-- operators read and write.
local MOST_CALLS <const>, MOST_ELEMENTS <const> = 256, 1 << 22

-- Checks calls with the sizes of a range that no other call has had, the smallest first, until the
-- calls have taken enough time.
local function check_range(graph, number, symbol, at, least, most, tried)
   local calls, elements = 0, 0
   for n = least, most do
      if calls == MOST_CALLS or elements > MOST_ELEMENTS then return end
      if not tried[n] then
         local other = at(n)
         check_size(graph, number, symbol, n, other)
         calls, elements = calls + 1, elements + other:work()
      end
   end
end

-- Finds the integers of the graph that depend on a dynamic size. For that, the function is called
-- with other sizes: near the example's size, at both ends of the range, and between them. A size of
-- 1, for which many models behave differently, is left out of the range if the operators then
-- differ. Returns the example's size, the sizes at both ends, and the ratio of the work for the
-- largest size to the work for the example.
local function find_integers(graph, call, tensors, symbol, number)
   local size, least, most = range_of(tensors, symbol)
   local function at(n) return M.record(call, M.with_size(tensors, symbol, n)) end
   local largest
   most, largest = record_largest(at, symbol, size, most)
   local second = size < most and size + 1 or size - 1
   local third = size + 3 <= most and size + 3 or math.max(size - 3, least)
   if least == most then
      second, third = size, size
   else
      graph:fit(number, second, at(second), third, at(third))
   end
   check_size(graph, number, symbol, most, largest)
   for _, n in ipairs {2, 3, size // 2, (size + most) // 2} do
      if n > least and n < most and n ~= size and n ~= second and n ~= third then
         check_size(graph, number, symbol, n, at(n))
      end
   end
   if least == 1 and not symbol.min then
      local fine, single = pcall(at, 1)
      graph:range(number, 1, most, fine and single or nil)
   else
      check_size(graph, number, symbol, least, at(least))
      graph:range(number, least, most, true)
   end
   local tried = {[1] = true, [2] = true, [3] = true}
   for _, n in ipairs {least, size, second, third, size // 2, (size + most) // 2, most} do
      tried[n] = true
   end
   check_range(graph, number, symbol, at, least, most, tried)
   return {
      size = size, most = most, least = math.min(math.max(least, symbol.min or 2), size),
      growth = math.max(1, largest:work() / graph:work()),
   }
end

-- Calls fn with each list of k different integers from 1 to n, in ascending order.
local function each_choice(n, k, fn, chosen)
   chosen = chosen or {}
   if #chosen == k then return fn {table.unpack(chosen)} end
   for i = (chosen[#chosen] or 0) + 1, n do
      chosen[#chosen + 1] = i
      each_choice(n, k, fn, chosen)
      chosen[#chosen] = nil
   end
end

-- An integer may depend on a product of dynamic sizes. FACTORS is the largest number of sizes in a
-- product, and MOST_SIZES the largest number of dynamic sizes for which products are searched.
local FACTORS <const>, MOST_SIZES <const> = 3, 8

-- Returns the size of an example plus `more` if the dimension's range includes the sum. Otherwise
-- returns the size minus `more`, but at least the smallest size of the range.
local function size_beside(found, more)
   if found.size + more <= found.most then return found.size + more end
   return math.max(found.size - more, found.least)
end

-- The largest number of elements that a call reads and writes if several of its sizes are near
-- their limits.
local MOST_TOGETHER <const> = 1 << 26

-- Returns a fraction, at most 1, of the distance from the example's sizes to the largest sizes. It
-- is so small that a call in which all sizes have gone this part of the way does not exceed
-- MOST_TOGETHER.
local function common_part(graph, found)
   local part = 1
   while part > 1e-3 do
      local work = graph:work()
      for _, range in ipairs(found) do work = work * (1 + (range.growth - 1) * part) end
      if work <= MOST_TOGETHER then break end
      part = part / 2
   end
   return part
end

-- Returns a list of functions, one for each call in which all dynamic sizes are to differ from the
-- example's sizes. A function returns the size for the call, given the size's range and number.
local function joint_sizes(graph, found)
   local part = common_part(graph, found)
   return {
      function(range, i) return size_beside(range, 1 + i) end,
      function(range, i) return size_beside(range, 3 + i) end,
      function(range) return range.least end,
      function(range) return range.size + math.floor((range.most - range.size) * part) end,
   }
end

--- Makes sizes of a graph dynamic. If there are several, the function is also called with all of
--- them changed, because a product of sizes is linear in each size only while the other sizes are
--- fixed.
function M.make_dynamic(graph, call, tensors, symbols)
   local found = {}
   for _, symbol in ipairs(symbols) do
      for _, place in ipairs(symbol) do graph:dynamic(place.input, place.dim, symbol.name) end
   end
   for i, symbol in ipairs(symbols) do
      found[i] = find_integers(graph, call, tensors, symbol, i)
   end
   if #symbols < 2 then return end
   -- Records a call in which dynamic size i has the value size(i).
   local function record_sizes(size)
      local list, sizes = tensors, {}
      for i, symbol in ipairs(symbols) do
         sizes[i] = size(i)
         if sizes[i] ~= found[i].size then list = M.with_size(list, symbol, sizes[i]) end
      end
      return sizes, M.record(call, list)
   end
   local joint, calls = joint_sizes(graph, found), {}
   local function check()
      for k, size in ipairs(joint) do
         if calls[k] == nil then
            local fine, sizes, other = pcall(record_sizes, function(i) return size(found[i], i) end)
            if not fine and k <= 2 then error(sizes, 0) end
            -- if several sizes are at their limits, the function may fail
            calls[k] = fine and {sizes, other}
         end
         if calls[k] then check_sizes(graph, symbols, table.unpack(calls[k])) end
      end
   end
   if #symbols > MOST_SIZES or pcall(check) then return check() end
   for k = 2, math.min(FACTORS, #symbols) do
      each_choice(#symbols, k, function(chosen)
         local changed = {}
         for _, i in ipairs(chosen) do changed[i] = true end
         graph:fit_product(chosen, record_sizes(function(i)
            return changed[i] and size_beside(found[i], 1) or found[i].size
         end))
      end)
   end
   check()
end

-- Raises the error `problem`, that two recordings differ. If they are alike when the clocks stand
-- still, the error names the clock. `again` makes a recording with the inputs or, given true, with
-- other values.
local function raise_difference(problem, title, seen, again)
   local call = seen and callees.reads_clocks(seen)
   local fine = call and pcall(callees.at_one_time, seen, function()
      again(false):same(again(true))
   end)
   if fine then
      torch.raise(("%s: %s: the operators depend on the result of %s, and a program would repeat "
         .. "the result; pass it as an input"):format(title, call.place, call.name))
   end
   lua_changes.raise_with_names(problem, seen, lua_changes.keep_in "a buffer")
end

--- Returns the graph of a function for some inputs. The graph was checked by calls with other
--- values and with other dynamic sizes. Raises an error if the function reads a value of Lua that
--- each call changes. The field `recorded` of `call` is true after the first call, and `others` is
--- the list of other tensors that the function reads if calls with other sizes differ.
function M.graph(call, tensors, symbols)
   local graph
   local fine, message, record_of = reads.during(function() graph = M.record(call, tensors) end)
   if not fine then error(message, 0) end
   call.recorded = true
   local is_module = class.isinstance(call.model, torch.nn.Module)
   local seen = record_of and reads.of(record_of, is_module and {call.model} or {}, {}, {})
   if seen then callees.check("export", seen, "program", callees.is_random(seen, graph)) end
   local function record_again(others)
      return others and M.record_other_values(call, tensors) or M.record(call, tensors)
   end
   local other = callees.later(seen, function() return record_again(true) end)
   if seen then lua_changes.check("export", seen) end
   local same, problem = pcall(graph.same, graph, other)
   if not same then raise_difference(problem, "export", seen, record_again) end
   same, problem = pcall(M.make_dynamic, graph, call, tensors, symbols)
   if not same then
      call.others = seen and lua_changes.tensors(seen)
      lua_changes.raise_with_names(problem, seen, "compute such a tensor in each call, or once for "
         .. "the largest size")
   end
   if seen then lua_changes.check("export", seen) end
   return graph
end

return M
