-- program.lua - serves a program of torch.export. If the program treats the examples of a batch
-- independently, several inference requests are answered in one run.

local torch = require "tlua"
local json = require "tlua.utils.json"
local counters = require "tlua.serve.counters"
local errors = require "tlua.serve.errors"
local datatypes = require "tlua.serve.datatypes"
local request_of = require "tlua.serve.request"

local M = {}

local Program = {}
Program.__index = Program
M.Program = Program

-- Names -----------------------------------------------------------------------------------------

-- Appends the names of the tensors in a structure of export.Program to `list`. Each name begins
-- with `prefix`.
local function add_names(structure, prefix, list)
   for _, entry in ipairs(structure) do
      local name = prefix .. tostring(entry[1])
      if entry[2] == 0 then list[#list + 1] = name else add_names(entry[2], name .. ".", list) end
   end
   return list
end

-- Returns names for the program's n outputs. These are the given names if there are any, or the
-- keys of the table that the model returns. Otherwise a single output is called `output`, and
-- several are called output_1, output_2 and so on.
local function output_names(structure, n, given)
   if given then
      if #given ~= n then
         torch.raise(("serve: config.json: outputs: expected %d names, got %d"):format(n, #given))
      end
      return given
   end
   if structure and #structure == 1 and structure[1][2] ~= 0 then
      return add_names(structure[1][2], "", {})
   end
   if n == 1 then return {"output"} end
   if structure then return add_names(structure, "output_", {}) end
   local list = {}
   for i = 1, n do list[i] = "output_" .. i end
   return list
end

-- Trial runs --------------------------------------------------------------------------------------

-- Makes random inputs. The shapes of the inputs have symbols for sizes that vary, and `sizes` maps
-- each symbol to a size.
local function example(self, sizes)
   local list = {}
   for i, input in ipairs(self.inputs) do
      local shape = {}
      for d, size in ipairs(input.declared) do
         shape[d] = type(size) == "string" and sizes[size] or size
      end
      if input.dtype:find "float" then
         list[i] = torch.rand(shape):to(input.dtype)
      elseif input.dtype == "bool" then
         list[i] = torch.ones(shape, {dtype = "bool"})
      else
         -- Integer inputs are all 1, because they may be indices, and 1 is a valid index.
         list[i] = torch.ones(shape, {dtype = "int64"}):to(input.dtype)
      end
   end
   return list
end

local function try(self, inputs)
   local ok, outputs = pcall(self.graph.run, self.graph, inputs)
   return ok and outputs or nil, outputs
end

-- Finds sizes for the symbols with which a trial run succeeds. First it tries small sizes, and then
-- the sizes with which the program was exported. Returns the sizes and the outputs of the run. If
-- no run succeeds, returns nil and the first error.
local function find_sizes(self)
   local exported, message = {}, nil
   for _, symbol in ipairs(json.decode(self.graph:describe()).symbols) do
      exported[symbol[1]] = symbol[2]
   end
   for _, size in ipairs {2, 1, 3, 4, 8, 16, 32, 64, 128, 256, 512, 0} do
      local sizes = {}
      for _, symbol in ipairs(self.symbols) do
         sizes[symbol] = size > 0 and size or exported[symbol]
      end
      local outputs, why = try(self, example(self, sizes))
      if outputs then return sizes, outputs end
      message = message or why
      if #self.symbols == 0 then break end
   end
   return nil, message
end

-- Finds the dimensions of the outputs that depend on a symbol's size, by running the program with
-- other sizes. In the result, all[symbol][i][dim] is "same" if this dimension of output i equals
-- the symbol's size. It is "other" if the dimension changes in another way, and nil if it does not
-- change.
local function follow_sizes(self, sizes, outputs)
   local all = {}
   for _, symbol in ipairs(self.symbols) do
      for _, more in ipairs {1, 2, 4, 8, -1} do
         local changed = setmetatable({[symbol] = sizes[symbol] + more}, {__index = sizes})
         local other = changed[symbol] > 0 and try(self, example(self, changed))
         if other then
            all[symbol] = {}
            for i, output in ipairs(outputs) do
               all[symbol][i] = {}
               for d = 1, output:dim() do
                  local before, after = output:size(d), other[i]:size(d)
                  if before ~= after then
                     all[symbol][i][d] = before == sizes[symbol] and after == changed[symbol]
                        and "same" or "other"
                  end
               end
            end
            break
         end
      end
   end
   return all
end

local function rows_of(tensors, first, n)
   local list = {}
   for i, tensor in ipairs(tensors) do list[i] = tensor:narrow(1, first, n) end
   return list
end

local function is_close(a, b)
   if a:numel() == 0 then return true end
   if not a:is_floating_point() then return a:equal(b) end
   a, b = a:double(), b:double()
   local limit = 1e-3 * (1e-3 + b:abs():max():item())
   return (a - b):abs():max():item() <= limit
end

-- Returns whether one run of three examples gives the same results as three runs of one example.
local function is_independent(self, symbol, sizes)
   local three = example(self, setmetatable({[symbol] = 3}, {__index = sizes}))
   local together = try(self, three)
   if not together then return false end
   for row = 1, 3 do
      local alone = try(self, rows_of(three, row, 1))
      if not alone then return false end
      for i, output in ipairs(alone) do
         if output:dim() == 0 or output:size(1) ~= 1
            or not is_close(together[i]:narrow(1, row, 1), output) then
            return false
         end
      end
   end
   return true
end

-- Returns the symbol for the number of examples. It is the first dimension of all inputs, and the
-- examples must be independent. Returns nil if there is no such symbol.
local function find_batch(self, sizes, followed)
   local symbol = self.inputs[1] and self.inputs[1].declared[1]
   if type(symbol) ~= "string" then return nil end
   for _, input in ipairs(self.inputs) do
      for d, size in ipairs(input.declared) do
         if (d == 1) ~= (size == symbol) then return nil end
      end
   end
   for _, dims in ipairs(followed[symbol] or {{}}) do
      if dims[1] ~= "same" then return nil end
      for d in pairs(dims) do
         if d ~= 1 then return nil end
      end
   end
   return is_independent(self, symbol, sizes) and symbol or nil
end

-- Tries runs of `most` examples, then of half as many, and so on. Returns the first number of
-- examples with which a run succeeds.
local function largest_batch(self, symbol, sizes, most)
   while most > 1 do
      if try(self, example(self, setmetatable({[symbol] = most}, {__index = sizes}))) then break end
      most = most // 2
   end
   return most
end

-- Loading -----------------------------------------------------------------------------------------

local function describe_inputs(self)
   self.inputs, self.symbols, self.input_index = {}, {}, {}
   local seen, names = {}, {}
   for i, input in ipairs(self.program:inputs()) do
      local datatype = datatypes.names[input.dtype]
      if not datatype then
         torch.raise(("serve: model %s: input %s has the dtype %s, which the protocol lacks")
            :format(self.name, input.name, input.dtype))
      end
      self.inputs[i] = {name = input.name, dtype = input.dtype, datatype = datatype,
         declared = input.shape}
      self.input_index[input.name], names[i] = i, input.name
      for _, size in ipairs(input.shape) do
         if type(size) == "string" and not seen[size] then
            seen[size] = true
            self.symbols[#self.symbols + 1] = size
         end
      end
   end
   self.input_list = table.concat(names, ", ")
end

local function describe_outputs(self, outputs, followed, names)
   self.outputs, self.output_index = {}, {}
   names = output_names(self.program.structure_.outputs, #outputs, names)
   for i, output in ipairs(outputs) do
      local shape = {}
      for d = 1, output:dim() do
         shape[d] = output:size(d)
         for _, dims in pairs(followed) do
            if dims[i][d] then shape[d] = -1 end
         end
      end
      local datatype = datatypes.names[output.dtype]
      if not datatype then
         torch.raise(("serve: model %s: output %s has the dtype %s, which the protocol lacks")
            :format(self.name, names[i], output.dtype))
      end
      self.outputs[i] = {name = names[i], quoted = json.encode(names[i]), dtype = output.dtype,
         datatype = datatype, shape = shape, width = datatypes.sizes[datatype]}
      self.output_index[names[i]] = i
   end
   self.output_list = table.concat(names, ", ")
end

--- Loads a program.
---@param spec table  has the fields name, version, path and options
---@param http table
---@return table
function M.load(spec, http)
   local options = spec.options
   local self = setmetatable({name = spec.name, version = spec.version, http = http,
      options = options, plans = {n = 0}, body_most = spec.body_most}, Program)
   self.program = torch.export.load(spec.path)
   if self.program.step_ then
      torch.raise(("serve: model %s: expected a program of torch.export, got a training step")
         :format(spec.name))
   end
   if options.device then self.program = self.program:to(options.device) end
   if options.timeout then self.program:set_limits {seconds = options.timeout} end
   self.graph = self.program.graph_
   describe_inputs(self)
   local sizes, outputs = find_sizes(self)
   if not sizes then
      torch.raise(("serve: model %s: the trial run fails: %s"):format(spec.name, outputs))
   end
   local followed = follow_sizes(self, sizes, outputs)
   describe_outputs(self, outputs, followed, options.outputs)
   if options.max_batch_size > 1 then
      self.batch = find_batch(self, sizes, followed)
      if self.batch then
         self.max_batch_size = largest_batch(self, self.batch, sizes, options.max_batch_size)
      end
   end
   self.max_batch_size = self.max_batch_size or 1
   if self.max_batch_size == 1 then self.batch = nil end
   self.prefix = ('{"model_name":%s,"model_version":"%s",'):format(json.encode(self.name),
      self.version)
   return self
end

--- Returns a description of the model for clients and for the server.
function Program:describe()
   local function tensors(list, declared)
      local out = {}
      for i, entry in ipairs(list) do
         local shape = {}
         for d, size in ipairs(entry[declared]) do
            shape[d] = type(size) == "string" and -1 or size
         end
         out[i] = {name = entry.name, datatype = entry.datatype, shape = shape}
      end
      return out
   end
   return {kind = "program", inputs = tensors(self.inputs, "declared"),
      outputs = tensors(self.outputs, "shape"), max_batch_size = self.batch and self.max_batch_size
      or 0, memory = (self.program:memory())}
end

-- Answering ---------------------------------------------------------------------------------------

--- Returns a tensor that has the given bytes as its elements.
function Program.tensor(bytes, shape, dtype)
   if #bytes == 0 then return torch.zeros(shape, {dtype = dtype}) end
   return assert(torch.io.bytes_as(torch.io.bytes(bytes), 1, shape, dtype))
end

--- Returns the bytes of a tensor's elements. `width` is the size of an element in bytes.
function Program:bytes_of(tensor, width)
   local values = tensor:cpu():contiguous()
   return self.http.bytes(values:data_ptr(), values:numel(), width)
end

--- Runs the program on inputs that are given as bytes. Returns the outputs as {bytes =, shape =,
--- key =}.
function Program:run(data, shapes)
   local inputs = {}
   for i, input in ipairs(self.inputs) do
      inputs[i] = self.tensor(data[i], shapes[i], input.dtype)
   end
   local outputs, results = self.graph:run(inputs), {}
   for i, output in ipairs(outputs) do
      local shape = {}
      for d = 1, output:dim() do shape[d] = output:size(d) end
      results[i] = {shape = shape, key = table.concat(shape, ",", self.batch and 2 or 1),
         bytes = self:bytes_of(output, self.outputs[i].width)}
   end
   return results
end

local function fail(request, problem)
   local status, message = 500, errors.text(problem)
   if type(problem) == "table" and problem.status then
      status, message = problem.status, problem.message
   elseif not message:find "memory" then
      status = 400 -- the input has caused this error, for example by an index out of range
   end
   return request:reply(status, "application/json", json.encode {error = errors.text(message)})
end

-- Adds n to a counter in `counts`, which belongs to one call of `answer`. At its end, `answer` adds
-- these counters to the counters that all threads share.
local function add(counts, name, n)
   local key = counters[name] or name
   counts[key] = (counts[key] or 0) + n
end

local function bucket_of(seconds)
   for i, bound in ipairs(counters.bounds) do
      if seconds <= bound then return counters.first_bucket + i - 1 end
   end
   return counters.first_bucket + #counters.bounds
end

local function finish(self, counts, job, results, first)
   local mine = results
   if first then -- this job gets its own rows from the results of the run for several jobs
      local rows = job.plan.rows
      mine = {}
      for i, result in ipairs(results) do
         local width = #result.bytes // math.max(1, result.shape[1])
         mine[i] = {shape = result.shape, rows = rows, key = result.key,
            bytes = result.bytes:sub(first * width + 1, (first + rows) * width)}
      end
   end
   local ok, problem = pcall(request_of.reply, self.http, self, job.request, job.plan, mine)
   -- The plan of a program is kept for run_same, which may run the program a second time after a
   -- failure. The plan of a model in Lua is not kept: the model may return other shapes in a second
   -- run, and must not run twice for a request.
   if job.plan.kept and job.plan.head and self.graph then self.last = job.plan end
   local age = job.request:age()
   if not ok then
      fail(job.request, problem)
      add(counts, "failed", 1)
      return
   end
   add(counts, "answered", 1)
   add(counts, "examples", job.plan.rows)
   add(counts, "total_ns", math.floor(age * 1e9))
   add(counts, bucket_of(age), 1)
end

local function run_alone(self, counts, job)
   local shapes = {}
   for i, part in ipairs(job.plan.inputs) do shapes[i] = part.shape end
   local ok, results = pcall(self.run, self, job.data, shapes)
   add(counts, "runs", 1)
   if ok then return finish(self, counts, job, results) end
   fail(job.request, results)
   add(counts, "failed", 1)
end

-- Answers jobs whose plans have the same key, by one run of the program.
local function run_together(self, counts, jobs, rows)
   if #jobs == 1 then return run_alone(self, counts, jobs[1]) end
   local data, shapes = {}, {}
   for i, part in ipairs(jobs[1].plan.inputs) do
      local pieces = {}
      for k, job in ipairs(jobs) do pieces[k] = job.data[i] end
      data[i] = table.concat(pieces)
      shapes[i] = {table.unpack(part.shape)}
      shapes[i][1] = rows
   end
   local ok, results = pcall(self.run, self, data, shapes)
   if not ok then -- one of the jobs may have caused the error, so each job is now run alone
      for _, job in ipairs(jobs) do run_alone(self, counts, job) end
      return
   end
   add(counts, "runs", 1)
   local first = 0
   for _, job in ipairs(jobs) do
      finish(self, counts, job, results, first)
      first = first + job.plan.rows
   end
end

-- Reads requests, and groups those that can be answered in one run.
local function read_all(self, counts, requests)
   local groups, by_key = {}, {}
   for _, request in ipairs(requests) do
      local ok, plan, data = true, nil, nil
      if not request:gone() then
         ok, plan, data = pcall(request_of.read, self.http, self, request)
      end
      if ok and not plan then
         add(counts, "gone", 1)
      elseif not ok then
         fail(request, plan)
         add(counts, "failed", 1)
      elseif plan.timeout and request:age() > plan.timeout then
         fail(request, {status = 504, message = "the deadline is over"})
         add(counts, "expired", 1)
      else
         add(counts, "queue_ns", math.floor(request:age() * 1e9))
         local group = self.batch and by_key[plan.key]
         if not group or group.rows + plan.rows > self.max_batch_size then
            group = {rows = 0}
            groups[#groups + 1] = group
            by_key[plan.key] = group
         end
         group[#group + 1] = {request = request, plan = plan, data = data}
         group.rows = group.rows + plan.rows
      end
   end
   return groups
end

-- Answers all requests of a batch, which may differ.
local function answer_any(self, counts, batch)
   local start = torch.io.clock()
   local groups = read_all(self, counts, batch:split())
   local read = torch.io.clock()
   for _, group in ipairs(groups) do run_together(self, counts, group, group.rows) end
   add(counts, "read_ns", math.floor((read - start) * 1e9))
   add(counts, "run_ns", math.floor((torch.io.clock() - read) * 1e9))
end

-- Runs the first n requests of a batch. `plan` is the plan of the last request that was answered
-- before, which has the same JSON. Returns the texts and widths for batch:reply. Returns nil if the
-- run fails or the results have other shapes than before.
local function run_same(self, batch, n, plan)
   local data, shapes = {}, {}
   for i, part in ipairs(plan.inputs) do
      data[i] = batch:join(n, #plan.head + part.first + 1, part.bytes)
      shapes[i] = part.shape
      if n > 1 then shapes[i] = {n * part.shape[1], table.unpack(part.shape, 2)} end
   end
   local ok, results = pcall(self.run, self, data, shapes)
   if not ok then return nil end
   local texts, kept = {}, plan.kept
   for i, chosen in ipairs(plan.outputs) do
      local result = results[chosen.index]
      if result.key ~= kept.keys[i] or #result.bytes ~= n * kept.sizes[i] then return nil end
      texts[2 * i - 1], texts[2 * i] = result.bytes, kept.sizes[i]
   end
   return texts
end

-- Answers the requests at the beginning of a batch that have the same JSON as the last request
-- before the batch. Returns whether there were any such requests.
local function answer_same(self, counts, batch)
   local plan = self.last
   if not plan then return false end
   local n = math.min(batch:same(plan.head, #plan.head + plan.binary),
      self.batch and self.max_batch_size // plan.rows or 1)
   if n == 0 then return false end
   local start = torch.io.clock()
   local waited = batch:age(n)
   local texts = run_same(self, batch, n, plan)
   if not texts then return false end
   local ages, sum = batch:reply(n, plan.kept.text, texts), 0
   for _, age in ipairs(ages) do
      sum = sum + age
      add(counts, bucket_of(age), 1)
   end
   add(counts, "runs", 1)
   add(counts, "answered", n)
   add(counts, "examples", n * plan.rows)
   add(counts, "queue_ns", math.floor(waited * 1e9))
   add(counts, "total_ns", math.floor(sum * 1e9))
   add(counts, "run_ns", math.floor((torch.io.clock() - start) * 1e9))
   return true
end

--- Answers a batch of requests. `count(counter, n)` adds n to a counter that all threads share.
function Program:answer(batch, count)
   local counts = {}
   while batch:size() > 0 do
      if not answer_same(self, counts, batch) then answer_any(self, counts, batch) end
   end
   for counter, n in pairs(counts) do count(counter, n) end
end

return M
