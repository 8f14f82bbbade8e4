-- export.lua - torch.onnx.export, which writes a model as an ONNX file. torch.export converts the
-- model to a program, and each call of the program is translated to ONNX.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"
local schema = require "tlua.onnx.schema"
local values = require "tlua.onnx.values"
local wire = require "tlua.onnx.wire"
local Builder = require "tlua.onnx.Builder"
local marks = require "tlua.onnx.marks"

local M = {}

local OLDEST <const>, NEWEST <const>, USUAL <const> = 17, 23, 18
-- A larger model is written with its weights in a second file, because a Protocol Buffers message
-- can have at most 2 GiB.
local LARGEST <const> = 1 << 31

-- Checks a list of arguments. torch.export checks the tensors.
local function check_inputs(inputs)
   if torch.is_tensor(inputs) then return end
   if type(inputs) ~= "table" or getmetatable(inputs) then
      args.refuse("onnx.export", "inputs", "a tensor, or a list of the arguments", inputs)
   end
   local n = 0
   for key in pairs(inputs) do
      if math.type(key) ~= "integer" then
         args.refuse("onnx.export", "inputs", "a list of the arguments, without other keys", key)
      end
      n = n + 1
   end
   for i = 1, n do
      if inputs[i] == nil then
         args.refuse("onnx.export", ("inputs[%d]"):format(i), "a tensor, or a table of tensors")
      end
   end
end

-- Raises an error unless `names`, the names of inputs or of outputs, is nil or a list of names.
local function check_names(what, names)
   if names == nil then return end
   if type(names) ~= "table" then args.refuse("onnx.export", what, "a list of names", names) end
   local seen = {}
   for _, name in ipairs(names) do
      if type(name) ~= "string" or name == "" or not utf8.len(name) then
         args.refuse("onnx.export", what, "names in UTF-8 that are not empty", name)
      end
      if seen[name] then args.refuse("onnx.export", what, "names that differ", name) end
      seen[name] = true
   end
end

local function check_count(what, names, n)
   if names and #names ~= n then
      torch.raise(("onnx.export: %s: expected a list of %d names, got %d"):format(what, n, #names))
   end
end

-- Checks the dimensions of one input.
local function check_axes(name, axes)
   if type(axes) ~= "table" then
      args.refuse("onnx.export", "dynamic_axes: " .. name, "a table of dimensions", axes)
   end
   for _, value in pairs(axes) do
      local text = value
      if type(value) == "table" then text = value.name end
      if text == "" or type(text) == "string" and not utf8.len(text) then
         args.refuse("onnx.export", "dynamic_axes: " .. name,
            "names of sizes in UTF-8 that are not empty", text)
      end
   end
end

-- Calls torch.export. An error that names torch.export and the option `dynamic` is raised again
-- with the names torch.onnx.export and dynamic_axes.
local function trace(model, inputs, options)
   local fine, result = pcall(torch.export, model, inputs, options)
   if fine then return result end
   if type(result) == "string" then
      result = result:gsub("^([^:\n]*:%d+: )export: ", "%1onnx.export: ")
         :gsub("^([^:\n]*:%d+: onnx.export: )dynamic: ", "%1dynamic_axes: ")
   end
   error(result, 0)
end

-- Converts dynamic_axes to torch.export's option `dynamic`. As in PyTorch, dynamic_axes may also
-- name outputs. These are ignored, because the sizes of outputs follow from the sizes of inputs.
local function read_dynamic(options)
   local given = options.dynamic_axes
   if given == nil then return nil end
   if type(given) ~= "table" then args.refuse("onnx.export", "dynamic_axes", "a table", given) end
   local dynamic, outputs, inputs = {}, {}, {}
   for _, name in ipairs(options.output_names or {}) do outputs[name] = true end
   for _, name in ipairs(options.input_names or {}) do inputs[name] = true end
   for name, axes in pairs(given) do
      if options.input_names and not inputs[name] and not outputs[name] then
         args.unknown_option("onnx.export: dynamic_axes", name, options.input_names)
      end
      if not outputs[name] then
         check_axes(name, axes)
         dynamic[name] = axes
      end
   end
   return dynamic
end

-- The exported model is also run with other values of its dynamic sizes. If a given size is at
-- least this large, the other value is smaller, so that the run takes less time.
local LARGE <const> = 16

-- Returns another value for a dynamic size. `symbol` is {name, size in the first example, least,
-- most}. If the limits permit, it is half of the old value or about twice the old value, so that
-- quotients of sizes change too.
local function other_size(symbol)
   local _, size, least, most = table.unpack(symbol)
   if size >= LARGE and size // 2 >= least then return size // 2 end
   local larger = math.min(2 * size + 1, most)
   return larger - size >= size - least and larger or least
end

-- Returns the inputs with other sizes in their dynamic dimensions. Where a size grows, the input's
-- elements are repeated.
local function with_sizes(inputs, tensors, sizes)
   local list = {}
   for i, input in ipairs(inputs) do
      local x = tensors[i]
      for dim, name in ipairs(input.shape) do
         local old = x:size(dim)
         if sizes[name] and sizes[name] ~= old then
            local positions = torch.arange(0, sizes[name], {dtype = "int64"}):remainder(old) + 1
            x = x:index_select(dim, positions)
         end
      end
      list[i] = x:contiguous()
   end
   return list
end

-- Returns examples of the inputs: the given inputs, inputs in which a single dynamic size differs
-- (for each dynamic size), and inputs in which all dynamic sizes differ. Thus a size that depends
-- on dynamic sizes is not the same in all examples, even if it is the difference of two dynamic
-- sizes.
local function find_examples(inputs, tensors, symbols)
   local examples, all = {tensors}, {}
   for i, symbol in ipairs(symbols) do
      local name, size, least, most = table.unpack(symbol)
      examples[#examples + 1] = with_sizes(inputs, tensors, {[name] = other_size(symbol)})
      all[name] = size + i <= most and size + i or math.max(size - i, least)
   end
   if #symbols > 1 then examples[#examples + 1] = with_sizes(inputs, tensors, all) end
   return examples
end

-- Adds examples with other values for a program with branches, so that both branches are executed.
local function add_other_ways(examples, graph, run)
   local branches, loops = false, false
   for _, call in ipairs(graph.calls) do
      branches, loops = branches or call.name == "cond_begin", loops or call.name == "loop_begin"
   end
   -- With other inputs, a loop might not end, so no examples are added if the program has loops.
   if not branches or loops then return end
   for _, change in ipairs {torch.neg, torch.zeros_like} do
      local list = {}
      for i, x in ipairs(examples[1]) do list[i] = x:is_floating_point() and change(x) or x end
      if pcall(run, table.unpack(list)) then examples[#examples + 1] = list end
   end
end

-- Adds the program's inputs and constants to the file. Returns a table that maps the program's
-- values to their values in the file.
local function begin(b, graph, inputs, names, examples, constants)
   local known = {}
   for i in ipairs(inputs) do
      local list = {}
      for k, tensors in ipairs(examples) do list[k] = tensors[i] end
      known[i] = b:input(names[i], list)
   end
   local made = {}
   b.symbols = {}
   for i, name in ipairs(graph.symbols) do
      for k, input in ipairs(inputs) do
         for dim, size in ipairs(input.shape) do
            if size == name and not b.symbols[i] then
               b.symbols[i] = {value = known[k], dim = dim, name = name}
            end
         end
      end
   end
   return function(value)
      if value.kind == "input" then return known[value.index] end
      if value.kind == "number" then return value.number end
      if value.kind == "constant" then
         local pair = constants[value.index]
         if not made[value.index] then
            made[value.index] = b:initializer(pair[2]:detach():contiguous(), pair[1])
         end
         return made[value.index]
      end
      return value.translated
   end
end

-- Returns the arguments of a call. find() replaces each value of the program by the value of the
-- file.
local function arguments(call, find)
   local list = {}
   for name, argument in pairs(call.args) do
      if type(argument) == "table" and argument.kind then
         argument = find(argument)
      elseif type(argument) == "table" then
         local copy = {} -- a list of arguments may have gaps, so all its keys are visited
         for i, value in pairs(argument) do
            if type(value) == "table" and value.kind then value = find(value) end
            copy[i] = value
         end
         argument = copy
      end
      list[name] = argument
   end
   return list
end

-- Translates one call of an operator.
local function translate_call(t, i)
   local b, call = t.b, t.graph.calls[i]
   local name = call.name:gsub("_$", "")
   local translation = require "tlua.onnx.layer_translations"[name]
   if not translation then
      wire.fail("call %d, %s: there is no translation of this operator", i, call.name)
   end
   local list = arguments(call, t.find)
   list.wanted = {}
   for k, result in ipairs(call.results) do list.wanted[k] = t.used[result] or false end
   b.call = ("%d, %s"):format(i, call.name)
   local fine, results = pcall(function() return table.pack(translation(b, list)) end)
   if not fine then
      local why = type(results) == "table" and results.onnx
      if not why then error(results, 0) end
      wire.fail("%s", why:find "^the call " and why or ("the call %s: %s"):format(b.call, why))
   end
   for k, result in ipairs(call.results) do
      result.translated, result.around = results[k], b.outer
   end
   -- The name ends with _: the operator changes its first argument in place.
   if call.name:find "_$" then
      local changed = call.args.self or call.args.input
      if not changed or changed.kind ~= "result" or changed.translated.root then
         wire.fail("the call %s changes an input, a constant or a view in place, which cannot "
            .. "be exported", b.call)
      end
      if changed.around ~= b.outer then
         wire.fail("the call %s in a branch or a loop changes a value outside of it, which cannot "
            .. "be exported", b.call)
      end
      changed.translated = results[1]
   end
end

-- Translates the calls from index `first` to index `last`.
local function translate_range(t, first, last)
   local i = first
   while i <= last do
      local mark = marks[t.graph.calls[i].name]
      if mark then
         i = mark(t, i)
      else
         translate_call(t, i)
      end
      i = i + 1
   end
end

local function translate(b, graph, find)
   local used = {}
   for _, call in ipairs(graph.calls) do
      for _, argument in pairs(call.args) do
         if type(argument) == "table" then
            used[argument] = true
            for _, item in pairs(argument) do used[item] = true end
         end
      end
   end
   for _, value in ipairs(graph.outputs) do used[value] = true end
   translate_range({b = b, graph = graph, find = find, used = used, open = {},
      range = translate_range}, 1, #graph.calls)
end

-- The file ----------------------------------------------------------------------------------------

local function type_of(b, value, symbols, name)
   local dims = {}
   for i = 1, b:rank(value) do
      local known = b:known(value, i)
      local symbol = symbols[i] or ("%s_%d"):format(name, i)
      dims[i] = known and {dim_value = known} or {dim_param = symbol}
   end
   local number = schema.numbers[b:dtype(value)]
      or wire.fail("%s: ONNX has no dtype %s", name, b:dtype(value))
   return {tensor_type = {elem_type = number, shape = {dim = dims}}}
end

-- Returns whether a dimension of x and a dimension of y have the same size in all examples.
local function same_size(x, dim, y, other)
   for k, example in ipairs(x.examples) do
      if example:size(dim) ~= y.examples[k]:size(other) then return false end
   end
   return true
end

-- Returns a table that maps each input's dynamic dimensions to their names.
local function symbols_of(input)
   local list = {}
   for dim, size in ipairs(input.shape) do list[dim] = type(size) == "string" and size or nil end
   return list
end

local function compose(b, inputs, names, outputs, output_names, opset, title)
   local graph = {name = title, node = b.nodes, input = {}, output = {}, initializer = {}}
   for i, input in ipairs(inputs) do
      local kind = type_of(b, input.value, symbols_of(input), names[i])
      graph.input[i] = {name = names[i], type = kind}
   end
   for i, output in ipairs(outputs) do
      -- An Identity node gives the output its own name.
      b.nodes[#b.nodes + 1] = {op_type = "Identity", name = ("output_%d"):format(i),
         input = {output.name}, output = {output_names[i]}}
      -- An output's size that equals a dynamic size of an input in all examples gets the same name.
      local same = {}
      for k = 1, b:rank(output) do
         for _, input in ipairs(inputs) do
            for dim, symbol in pairs(symbols_of(input)) do
               if same_size(input.value, dim, output, k) then same[k] = symbol end
            end
         end
      end
      graph.output[i] = {name = output_names[i], type = type_of(b, output, same, output_names[i])}
   end
   for i, pair in ipairs(b.initializers) do
      graph.initializer[i] = values.write(pair[1], pair[2])
   end
   return {ir_version = 8, producer_name = "tlua", producer_version = torch.__version__,
      opset_import = {{domain = "", version = opset}}, graph = graph}
end

local function inner_graphs(node)
   local list = {}
   for _, attribute in ipairs(node.attribute or {}) do list[#list + 1] = attribute.g end
   return list
end

-- Adds the names of all values that a node and its inner graphs use to `used`.
local function add_inputs(node, used)
   for _, name in ipairs(node.input) do used[name] = true end
   for _, graph in ipairs(inner_graphs(node)) do
      for _, inner in ipairs(graph.node) do add_inputs(inner, used) end
   end
end

-- Removes initializers that no node uses.
local function drop_unused(proto)
   local used, list = {}, {}
   for _, node in ipairs(proto.graph.node) do add_inputs(node, used) end
   for _, tensor in ipairs(proto.graph.initializer) do
      if used[tensor.name] then list[#list + 1] = tensor end
   end
   proto.graph.initializer = list
end

-- Removes nodes whose outputs nothing uses.
local function drop_dead(graph)
   local used, kept = {}, {}
   for _, output in ipairs(graph.output) do used[output.name] = true end
   for i = #graph.node, 1, -1 do
      local node, needed = graph.node[i], false
      for _, name in ipairs(node.output) do needed = needed or used[name] end
      if needed then
         for _, inner in ipairs(inner_graphs(node)) do drop_dead(inner) end
         table.insert(kept, 1, node)
         add_inputs(node, used)
      end
   end
   graph.node = kept
end

-- Moves the weights to a second file beside the model's file.
local function make_external(proto, path)
   local name = (path:match "[^/\\]+$") .. ".data"
   local parts, offset = {}, 0
   for _, tensor in ipairs(proto.graph.initializer) do
      local data = tensor.raw_data
      local n = data:numel() * data:element_size()
      if n >= 1024 then
         local pad = -offset % 64
         if pad > 0 then parts[#parts + 1] = ("\0"):rep(pad) end
         offset = offset + pad
         tensor.raw_data, tensor.data_location = nil, 1
         tensor.external_data = {{key = "location", value = name},
            {key = "offset", value = tostring(offset)}, {key = "length", value = tostring(n)}}
         parts[#parts + 1], offset = data, offset + n
      end
   end
   return parts, path .. ".data"
end

local function write(path, parts)
   local file, why = torch.io.replace(path)
   if not file then wire.fail("%s: %s", path, why) end
   why = wire.write(file, parts)
   if why then
      file:close()
      wire.fail("%s: %s", path, why)
   end
   local done, failure = torch.io.commit(file)
   if not done then wire.fail("%s: %s", path, failure) end
end

-- Compares the results of the graph's nodes with the results of the program, for each example.
-- Raises an error if they differ.
local function verify(outputs, program, examples)
   for example, list in ipairs(examples) do
      local expected = {}
      local function gather(value)
         if torch.is_tensor(value) then
            expected[#expected + 1] = value
         elseif type(value) == "table" then
            local keys = {}
            for key in pairs(value) do keys[#keys + 1] = key end
            table.sort(keys, function(x, y) return tostring(x) < tostring(y) end)
            for _, key in ipairs(keys) do gather(value[key]) end
         end
      end
      for _, value in ipairs(program.graph_:run(list)) do gather(value) end
      for i, output in ipairs(outputs) do
         local got, wanted = output.examples[example], expected[i]
         local same = got.dtype == wanted.dtype
            and table.concat(got.shape, ",") == table.concat(wanted.shape, ",")
         if same and got:numel() > 0 and got:is_floating_point() then
            local scale = wanted:abs():nan_to_num(0, 0, 0):max():item()
            same = torch.allclose(got:double(), wanted:double(),
               {rtol = 1e-3, atol = 1e-4 * (scale + 1e-3), equal_nan = true})
         elseif same and got:numel() > 0 then
            same = got:eq(wanted):all():item()
         end
         if not same then
            wire.fail("output %d: expected %s as the model computes it, got %s with other values",
               i, values.describe(wanted), values.describe(got))
         end
      end
   end
end

local function default_names(inputs)
   local names = {}
   for i, input in ipairs(inputs) do names[i] = input.name end
   return names
end

local function in_eval(model, fn)
   if type(model) ~= "table" or type(model.train) ~= "function" or not model.training then
      return fn()
   end
   local modes = {}
   for _, module in ipairs(model:modules()) do modes[module] = module.training end
   model:eval()
   local results = table.pack(pcall(fn))
   for module, mode in pairs(modes) do
      if module.training ~= mode then module.training = mode end
   end
   if not results[1] then error(results[2], 0) end
   return table.unpack(results, 2, results.n)
end

local function make(model, inputs, path, options)
   if torch.is_tensor(inputs) then inputs = {inputs} end
   local program = trace(model, inputs,
      {dynamic = read_dynamic(options), names = options.input_names})
   local opset = options.opset_version or USUAL
   local described = program:inputs()
   check_count("input_names", options.input_names, #described)
   local names = options.input_names or default_names(described)
   local first = {}
   local function collect(value)
      if torch.is_tensor(value) then
         first[#first + 1] = value:detach():cpu():contiguous()
      else
         for _, key in ipairs(require "tlua.export.nested".sorted_keys(value)) do
            collect(value[key])
         end
      end
   end
   for _, value in ipairs(inputs) do collect(value) end
   local symbols = json.decode(program.graph_:describe()).symbols
   local examples = find_examples(described, first, symbols)
   local graph = program.graph_:calls()
   add_other_ways(examples, graph, function(...) return program.graph_:run {...} end)
   local b = Builder.new(opset, #examples)
   check_count("output_names", options.output_names, #graph.outputs)
   local output_names = table.move(options.output_names or {}, 1, #graph.outputs, 1, {})
   for _, name in ipairs(output_names) do
      for _, input in ipairs(names) do
         if name == input then
            args.refuse("onnx.export", "output_names", "names that no input has", name)
         end
      end
   end
   for i = 1, #graph.outputs do
      local usual = #graph.outputs == 1 and "output" or ("output_%d"):format(i)
      for _, input in ipairs(names) do
         if input == usual then usual = "result_" .. usual end
      end
      output_names[i] = output_names[i] or usual
      b.names[output_names[i]] = true
   end
   local find = begin(b, graph, described, names, examples, program.graph_:constants())
   translate(b, graph, find)
   local outputs = {}
   for i, value in ipairs(graph.outputs) do
      outputs[i] = find(value)
      if not (type(outputs[i]) == "table" and outputs[i].examples) then
         outputs[i] = b:number(outputs[i], "float32")
      end
   end
   for _, input in ipairs(described) do input.value = nil end
   for i, input in ipairs(described) do input.value = find {kind = "input", index = i} end
   verify(outputs, program, examples)
   local proto = compose(b, described, names, outputs, output_names, opset,
      type(model) == "table" and torch.type(model) or "function")
   drop_dead(proto.graph)
   drop_unused(proto)
   local bytes = 0
   for _, tensor in ipairs(proto.graph.initializer) do
      bytes = bytes + tensor.raw_data:numel() * tensor.raw_data:element_size()
   end
   if options.external_data or bytes >= LARGEST - (1 << 26) then
      local parts, data = make_external(proto, path)
      write(data, parts)
   end
   write(path, wire.encode(proto, "ModelProto"))
end

--- Writes a model as an ONNX file.
function M.export(model, inputs, path, options)
   if type(path) ~= "string" or path == "" or path:find "%z" then
      args.refuse("onnx.export", "path", "a path", path)
   end
   if not args.is_callable(model) then
      args.refuse("onnx.export", "model", "a module or a function", model)
   end
   args.check_options("onnx.export", options, "input_names", "output_names", "dynamic_axes",
      "opset_version", "external_data")
   options = options or {}
   local opset = options.opset_version
   if opset ~= nil and (math.type(opset) ~= "integer" or opset < OLDEST or opset > NEWEST) then
      args.refuse("onnx.export", "opset_version", ("%d to %d"):format(OLDEST, NEWEST), opset)
   end
   check_inputs(inputs)
   check_names("input_names", options.input_names)
   check_names("output_names", options.output_names)
   local external = options.external_data
   if external ~= nil and type(external) ~= "boolean" then
      args.refuse("onnx.export", "external_data", "a boolean", external)
   end
   return wire.protect("onnx.export", function()
      local _ <close> = torch.no_grad()
      return in_eval(model, function() return make(model, inputs, path, options) end)
   end)
end

return M
