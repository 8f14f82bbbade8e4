-- request.lua - inference requests in the Open Inference Protocol v2, which are JSON, or JSON
-- followed by the bytes of tensors. A plan is the decoded and checked JSON of a request without the
-- data of its tensors. Plans of recent requests are cached, because clients often send the same
-- JSON with other data.

local torch = require "tlua"
local json = require "tlua.utils.json"
local datatypes = require "tlua.serve.datatypes"
local errors = require "tlua.serve.errors"

local M = {}

local kept_most <const> = 256 -- the largest number of cached plans of a model
-- A plan is cached only if the request's JSON has at most this many bytes.
local text_most <const> = 4096

-- Raises an error, which is sent to the client with status 400.
local function refuse(message, ...)
   error({status = 400, message = message:format(...)}, 0)
end
M.refuse = refuse

-- Removes the arrays of data from the JSON text of a request: each array after a key "data". The
-- i-th array is replaced by the number i. Returns the shorter text and a table `places`: places[i]
-- is the position of the i-th array, and places[-i] is the position after it. The search for the
-- word "data" with its quotes is safe, because a quote within a string has a backslash.
local function take_data(http, body)
   local pieces, places, position = {}, {}, 1
   while true do
      local first, last = body:find('"data"[ \t\r\n]*:[ \t\r\n]*%[', position)
      if not first then break end
      local after = http.skip(body, last)
      if not after then refuse "the body is not JSON: an array does not end" end
      places[#places + 1] = last
      pieces[#pieces + 1] = body:sub(position, last - 1)
      pieces[#pieces + 1] = ("%d"):format(#places)
      places[-#places] = after
      position = after
   end
   pieces[#pieces + 1] = body:sub(position)
   return table.concat(pieces), places
end

local function shape_text(shape)
   local list = {}
   for i, size in ipairs(shape) do list[i] = tostring(size) end
   return "[" .. table.concat(list, ",") .. "]"
end
M.shape_text = shape_text

local function parameters_of(object, what)
   local parameters = object.parameters
   if parameters == nil then return {} end
   if type(parameters) ~= "table" or json.is_array(parameters) then
      refuse("%s: parameters: expected an object, got %s", what, errors.kind(parameters))
   end
   return parameters
end

-- Checks the shape of an input and returns the number of its elements. Dimensions that have the
-- same symbol must have the same size.
local function check_shape(name, shape, declared, symbols)
   if not json.is_array(shape) then
      refuse("input %s: shape: expected a list of sizes, got %s", name, errors.kind(shape))
   end
   if #shape > 64 then
      refuse("input %s: shape: expected at most 64 sizes, got %d", name, #shape)
   end
   local count = 1
   for _, size in ipairs(shape) do
      if math.type(size) ~= "integer" or size < 0 then
         refuse("input %s: shape: expected sizes of at least 0, got %s", name,
            errors.kind(size))
      end
      if size ~= 0 and count > (1 << 40) // size then
         refuse("input %s: the shape %s is too large", name, shape_text(shape))
      end
      count = count * size
   end
   local fits = #shape == #declared
   for i, size in ipairs(fits and declared or {}) do
      if type(size) == "string" then
         if symbols[size] and symbols[size] ~= shape[i] then
            refuse("input %s: dimension %d: expected %d, the size of %q in another input, got %d",
               name, i, symbols[size], size, shape[i])
         end
         symbols[size] = shape[i]
      else
         fits = fits and size == shape[i]
      end
   end
   if not fits then
      local expected = {}
      for i, size in ipairs(declared) do expected[i] = type(size) == "string" and -1 or size end
      refuse("input %s: expected the shape %s, got %s", name, shape_text(expected),
         shape_text(shape))
   end
   return count
end

-- Checks an entry of "inputs". Adds its shape and the position of its data to the plan.
local function read_input(model, entry, plan, symbols)
   if type(entry) ~= "table" or type(entry.name) ~= "string" then
      refuse("inputs: expected objects with a name, got %s", errors.field(entry, "name"))
   end
   local name = entry.name
   local index = model.input_index[name]
   if not index then
      refuse("unexpected input %s; the inputs of model %s are: %s", errors.kind(name), model.name,
         model.input_list)
   end
   if plan.inputs[index] then refuse("input %s: given twice", name) end
   local input = model.inputs[index]
   local known = entry.datatype == "BYTES" or datatypes.sizes[entry.datatype]
   if entry.datatype ~= input.datatype then
      refuse("input %s: expected the datatype %s, got %s", name, input.datatype,
         known and entry.datatype or errors.kind(entry.datatype))
   end
   local count = check_shape(name, entry.shape, input.declared, symbols)
   local size = parameters_of(entry, "input " .. name).binary_data_size
   local width = datatypes.sizes[input.datatype]
   -- In a BYTES tensor, the length of each text, which has 4 bytes, precedes the text.
   local part = {shape = entry.shape, count = count, bytes = count * (width or 4)}
   if size ~= nil then
      if entry.data ~= nil then
         refuse("input %s: expected data or binary_data_size, got both", name)
      end
      if math.type(size) ~= "integer" or size < part.bytes or width and size > part.bytes
         or size > 1 << 40 then
         refuse("input %s: binary_data_size: expected %s%d for the shape %s of %s, got %s", name,
            width and "" or "at least ", part.bytes, shape_text(entry.shape), input.datatype,
            errors.kind(size))
      end
      part.first, part.bytes = plan.binary, size
      plan.binary = plan.binary + size
   elseif math.type(entry.data) == "integer" and plan.places and not plan.places[entry.data] then
      part.place = entry.data
      plan.places[entry.data] = true
   else
      refuse("input %s: expected data, or binary_data_size in parameters, got %s", name,
         entry.data == nil and "neither" or "data that is no list")
   end
   plan.has_texts = plan.has_texts or not width
   plan.inputs[index] = part
end

local function read_output(model, entry, plan, binary)
   if type(entry) ~= "table" or type(entry.name) ~= "string" then
      refuse("outputs: expected objects with a name, got %s", errors.field(entry, "name"))
   end
   local index = model.output_index[entry.name]
   if not index then
      refuse("unexpected output %s; the outputs of model %s are: %s", errors.kind(entry.name),
         model.name, model.output_list)
   end
   for _, chosen in ipairs(plan.outputs) do
      if chosen.index == index then refuse("output %s: given twice", entry.name) end
   end
   local parameters = parameters_of(entry, "output " .. entry.name)
   if parameters.classification ~= nil then
      refuse("output %s: classification is not supported", entry.name)
   end
   if parameters.shared_memory_region ~= nil then
      refuse("output %s: shared memory is not supported", entry.name)
   end
   local chosen = parameters.binary_data
   if chosen == nil then chosen = binary end
   if type(chosen) ~= "boolean" then
      refuse("output %s: binary_data: expected true or false, got %s", entry.name,
         errors.kind(chosen))
   end
   plan.outputs[#plan.outputs + 1] = {index = index, binary = chosen}
end

-- Makes the plan from a request's JSON text, in which take_data has replaced the arrays by numbers.
local function make_plan(model, text, has_places)
   local value, message = json.decode(text)
   if value == nil then refuse("the body is not JSON: %s", message) end
   if type(value) ~= "table" or value == json.null or json.is_array(value) then
      refuse("the body: expected a JSON object, got %s", errors.kind(value))
   end
   if not json.is_array(value.inputs) then
      refuse("inputs: expected a list, got %s", errors.kind(value.inputs))
   end
   local plan = {inputs = {}, outputs = {}, binary = 0, places = has_places and {} or nil,
      heads = {}}
   local parameters = parameters_of(value, "the request")
   if value.id ~= nil then
      if type(value.id) ~= "string" then
         refuse("id: expected a string, got %s", errors.kind(value.id))
      end
      plan.id = value.id ~= "" and value.id or nil
   end
   if parameters.sequence_id and parameters.sequence_id ~= 0 and parameters.sequence_id ~= "" then
      refuse "parameters: sequences are not supported"
   end
   local timeout = parameters.timeout
   if timeout ~= nil then
      if math.type(timeout) ~= "integer" or timeout < 0 then
         refuse("parameters: timeout: expected microseconds, got %s", errors.kind(timeout))
      end
      plan.timeout = timeout > 0 and timeout * 1e-6 or nil
   end
   local symbols = {}
   for _, entry in ipairs(value.inputs) do read_input(model, entry, plan, symbols) end
   for i, input in ipairs(model.inputs) do
      if not plan.inputs[i] then
         refuse("input %s is missing; the inputs of model %s are: %s", input.name, model.name,
            model.input_list)
      end
   end
   local binary = parameters.binary_data_output == true
   if value.outputs ~= nil and not json.is_array(value.outputs) then
      refuse("outputs: expected a list, got %s", errors.kind(value.outputs))
   end
   for _, entry in ipairs(value.outputs or {}) do read_output(model, entry, plan, binary) end
   if #plan.outputs == 0 then
      for i in ipairs(model.outputs) do plan.outputs[i] = {index = i, binary = binary} end
   end
   for _, output in ipairs(plan.outputs) do plan.any_binary = plan.any_binary or output.binary end
   -- Requests whose plans have the same key can be answered together in one run.
   local key = {}
   for i, part in ipairs(plan.inputs) do
      key[i] = table.concat(part.shape, ",", model.batch and 2 or 1)
   end
   plan.key = table.concat(key, ";")
   plan.rows = model.batch and plan.inputs[1].shape[1] or 1
   if model.batch and plan.rows > model.max_batch_size then
      refuse("expected at most %d examples in a request, got %d", model.max_batch_size, plan.rows)
   end
   return plan
end

-- Returns whether a text begins like a zlib stream (RFC 1950) that needs no dictionary.
local function is_zlib(body)
   local method, flags = body:byte(1, 2)
   return method & 15 == 8 and (method << 8 | flags) % 31 == 0 and flags & 32 == 0
end

local function unpack_body(body, encoding, most)
   encoding = encoding and encoding:lower()
   if encoding == nil or encoding == "identity" or encoding == "" then return body end
   if encoding ~= "gzip" and encoding ~= "deflate" then
      error({status = 415, message = "Content-Encoding: expected gzip or deflate, got "
         .. encoding}, 0)
   end
   local zlib = encoding == "deflate" -- "deflate" in HTTP means the zlib format
   if #body < (zlib and 8 or 18) then
      refuse("the body is not %s: it is too short, %d bytes", encoding, #body)
   end
   if not (zlib and is_zlib(body) or not zlib and body:sub(1, 2) == "\x1F\x8B") then
      refuse("the body is not %s: it begins otherwise, with the bytes %02x %02x", encoding,
         body:byte(1, 2))
   end
   -- At most one byte more than is allowed is unpacked. This is enough to detect a body that is too
   -- long. No body grows beyond the second limit, since deflate compresses at most by a factor of
   -- 1032.
   local bytes, message = torch.io.inflate(torch.io.bytes(body), "gzip",
      math.min(most + 1, 1032 * #body + 64), true)
   if not bytes then refuse("the body is not %s: %s", encoding, message) end
   local size = bytes:numel()
   if size > most then
      error({status = 413, message = ("the body has more than the %d bytes that this server "
         .. "allows after it is unpacked"):format(most)}, 0)
   end
   return size == 0 and "" or torch.io.text(bytes, 1, size)
end

-- Texts -------------------------------------------------------------------------------------------

-- Reads the texts of a BYTES tensor. Each text follows its length, which has 4 bytes.
local function unpack_texts(name, bytes, count)
   local texts, position = {}, 1
   for i = 1, count do
      local ok, text, after = pcall(string.unpack, "<s4", bytes, position)
      if not ok then
         refuse("input %s: text %d of %d: expected 4 bytes with its length and then its bytes, got "
            .. "%d bytes", name, i, count, #bytes - position + 1)
      end
      texts[i], position = text, after
   end
   if position <= #bytes then
      refuse("input %s: %d bytes are left after %d texts", name, #bytes - position + 1, count)
   end
   return texts
end

-- Appends the texts in a list to `texts`. The list may be nested.
local function add_texts(name, value, texts)
   for _, entry in ipairs(value) do
      if type(entry) == "string" then
         texts[#texts + 1] = entry
      elseif json.is_array(entry) then
         add_texts(name, entry, texts)
      else
         refuse("input %s: data: expected texts of BYTES, got %s", name, errors.kind(entry))
      end
   end
   return texts
end

-- Returns the texts of an input of the datatype BYTES. `text` is the JSON list that contains them.
local function read_texts(name, text, part)
   local value, message = json.decode(text)
   if value == nil then refuse("input %s: data: %s", name, message) end
   local texts = add_texts(name, value, {})
   if #texts ~= part.count then
      refuse("input %s: data: expected %d texts for the shape %s, got %d", name, part.count,
         shape_text(part.shape), #texts)
   end
   return texts
end

-- Requests ----------------------------------------------------------------------------------------

-- Returns the bytes of an input's numbers, which are a JSON list in `body` that begins at `first`
-- and ends before `last`.
local function read_numbers(http, input, body, first, last, part)
   local datatype = datatypes.in_json(input.datatype)
   local bytes, after, count = http.numbers(body, first, datatype)
   if not bytes then
      refuse("input %s: data: expected numbers of %s, got %q at byte %d", input.name,
         input.datatype, body:sub(after, after + 15):match "^[^%c]*", after)
   end
   if after ~= last then
      refuse("input %s: data: expected one list, which ends at byte %d, got more to byte %d",
         input.name, after - 1, last - 1)
   end
   if count ~= part.count then
      refuse("input %s: data: expected %d numbers for the shape %s, got %d", input.name,
         part.count, shape_text(part.shape), count)
   end
   -- JSON numbers for float16 and bfloat16 were read as float32, and are converted here.
   if datatype ~= input.datatype and count > 0 then
      local values = torch.frombuffer(bytes, {dtype = "float32"}):to(input.dtype)
      bytes = http.bytes(values:data_ptr(), count, 2)
   end
   return bytes
end

--- Reads a request. Returns its plan and the bytes of each input. Errors are tables with the fields
--- status and message.
---@param http table  the C module
---@param model table  has the fields name, inputs, outputs, batch, max_batch_size and plans
---@param request table
---@return table plan
---@return (string|string[])[] inputs  the bytes of each input; for BYTES, a list of texts
function M.read(http, model, request)
   local body = unpack_body(request:body(), request:header "Content-Encoding", model.body_most)
   local head = request:header "Inference-Header-Content-Length"
   local text, places, start = body, nil, 0
   if head then
      start = head:find "^%d+$" and math.tointeger(tonumber(head))
      if not start or start < 1 or start > #body then
         refuse("Inference-Header-Content-Length: expected 1 to %d, the body's length, got %s",
            #body, head)
      end
      text = body:sub(1, start)
   end
   local plans = model.plans
   local plan = head and plans[text]
   if not plan then
      if text:find('"data"', 1, true) then text, places = take_data(http, text) end
      plan = plans[text]
      if not plan then
         plan = make_plan(model, text, places ~= nil)
         if #text <= text_most and not plan.id then
            if plans.n >= kept_most then
               model.plans = {n = 0}
               plans = model.plans
            end
            plans[text], plans.n = plan, plans.n + 1
            -- If the head is kept in the plan, program.lua recognises further requests with the
            -- same head without decoding their JSON.
            local plain = head and not places and not plan.timeout and not plan.has_texts
            if plain and plan.rows > 0 then plan.head = text end
         end
      end
   end
   if #body - start ~= plan.binary and (head or plan.binary > 0) then
      refuse("expected %d bytes of tensors after the JSON, got %d", plan.binary,
         head and #body - start or 0)
   end
   local data = {}
   for i, part in ipairs(plan.inputs) do
      local input = model.inputs[i]
      if part.first then
         local bytes = body:sub(start + part.first + 1, start + part.first + part.bytes)
         data[i] = input.dtype and bytes or unpack_texts(input.name, bytes, part.count)
      else
         local first = places and places[part.place]
         if not first then refuse("input %s: data: expected a list, got none", input.name) end
         data[i] = input.dtype and read_numbers(http, input, body, first, places[-part.place], part)
            or read_texts(input.name, body:sub(first, places[-part.place] - 1), part)
      end
   end
   return plan, data
end

local function quote(text) return json.encode(text) end

-- Returns the numbers of an output as JSON.
local function list_of_numbers(http, output, bytes)
   local datatype = datatypes.in_json(output.datatype)
   if datatype ~= output.datatype and #bytes > 0 then
      local values = torch.frombuffer(bytes, {dtype = output.dtype}):float()
      bytes = http.bytes(values:data_ptr(), values:numel(), 4)
   end
   return http.list(bytes, datatype) or error({status = 500, message = ("output %s has NaN or "
      .. "infinite values, which JSON lacks: ask for binary data"):format(output.name)}, 0)
end

-- Returns the texts of an output as JSON.
local function list_of_texts(output, texts)
   local list = json.as_array {}
   for i, text in ipairs(texts) do
      list[i] = text
      if not utf8.len(text) then
         error({status = 500, message = ("output %s has texts that are not UTF-8, which JSON "
            .. "lacks: ask for binary data"):format(output.name)}, 0)
      end
   end
   return json.encode(list)
end

-- Returns the JSON of an answer that precedes the data of the i-th output.
local function head_of(plan, i, output, result)
   local rows, kept = result.rows or result.shape[1], plan.heads[i]
   if kept and kept.key == result.key and kept.rows == rows then return kept.text end
   local shape = {table.unpack(result.shape)}
   shape[1] = rows
   local text = ('{"name":%s,"datatype":"%s","shape":%s'):format(output.quoted, output.datatype,
      shape_text(shape))
   plan.heads[i] = {key = result.key, rows = rows, text = text}
   return text
end

--- Answers a request with outputs that are given as bytes.
---@param http table
---@param model table
---@param request table
---@param plan table
---@param results {bytes: string, texts: string[]?, shape: integer[], rows: integer?,
--- key: string}[]  in the order of the model's outputs; rows: replaces the shape's first size; key:
--- a text of the shape's sizes, without the first one if requests are batched
function M.reply(http, model, request, plan, results)
   -- plan.kept has the JSON of the last answer, which is used again if the results have the same
   -- shapes.
   local kept = plan.kept
   if kept then
      local same, binary = true, {}
      for i, chosen in ipairs(plan.outputs) do
         local result = results[chosen.index]
         same = same and kept.keys[i] == result.key and kept.sizes[i] == #result.bytes
         binary[i] = result.bytes
      end
      if same then
         return request:reply(200, "application/octet-stream",
            kept.text .. table.concat(binary), kept.headers)
      end
   end
   local pieces, binary, all_binary, keys, sizes = {}, {}, true, {}, {}
   for i, chosen in ipairs(plan.outputs) do
      local output, result = model.outputs[chosen.index], results[chosen.index]
      local head = head_of(plan, i, output, result)
      all_binary, keys[i], sizes[i] = all_binary and chosen.binary, result.key, #result.bytes
      if chosen.binary then
         binary[#binary + 1] = result.bytes
         pieces[i] = ('%s,"parameters":{"binary_data_size":%d}}'):format(head, #result.bytes)
      else
         local list = result.texts and list_of_texts(output, result.texts)
            or list_of_numbers(http, output, result.bytes)
         pieces[i] = head .. ',"data":' .. list .. "}"
      end
   end
   local text = ("%s%s\"outputs\":[%s]}"):format(model.prefix,
      plan.id and ('"id":%s,'):format(quote(plan.id)) or "", table.concat(pieces, ","))
   if not plan.any_binary then return request:reply(200, "application/json", text) end
   local headers = {["Inference-Header-Content-Length"] = ("%d"):format(#text)}
   if all_binary then plan.kept = {text = text, headers = headers, keys = keys, sizes = sizes} end
   return request:reply(200, "application/octet-stream", text .. table.concat(binary), headers)
end

return M
