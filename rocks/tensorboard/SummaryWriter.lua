-- SummaryWriter.lua - logs a training run for TensorBoard:
--
--    local writer = torch.utils.tensorboard.SummaryWriter "runs/first"
--    writer:add_scalar("loss", loss:item(), step)
--    writer:close()
--
-- Each event is written as a record with checksums. If the run is killed, its file is still
-- readable up to the last complete record. Names and formats are those of PyTorch's class
-- SummaryWriter.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local protobuf = require "tlua.utils.protobuf"
local wire = require "tlua.tensorboard.wire"
local notice = require "tlua.utils.notice"

local int, double, float, bytes = protobuf.int, protobuf.double, protobuf.float, protobuf.bytes

local signature = args.signature [[utils.tensorboard.SummaryWriter(log_dir: string?,
   comment: string = '', max_queue: count = 10, flush_secs: number = 120,
   filename_suffix: string = '')]]

---     local writer = torch.utils.tensorboard.SummaryWriter "logs"
---     for step = 1, 3 do writer:add_scalar("loss", 1 / step, step) end
---     writer:close()
---     print(writer.log_dir)
---     --> logs
---@class utils.tensorboard.SummaryWriter
---@overload fun(log_dir?: string, options?: table): utils.tensorboard.SummaryWriter
local SummaryWriter = class.class("utils.tensorboard.SummaryWriter")

local opened = 0

local function fail(who, path, message)
   torch.raise(("SummaryWriter: %s: %s: %s"):format(who, path, message))
end

local function make_folder(who, path)
   local made, message = torch.io.make_folder(path)
   if not made then fail(who, path, message) end
end

-- Prints a message once. From then on, all events are dropped, because a full disk must not end the
-- training.
local function lost(self, message)
   if not self.failed then
      notice("SummaryWriter: %s: %s; nothing more is written", self.path, message)
   end
   self.failed = true
end

function SummaryWriter:__init(...)
   local a = signature(...)
   self.log_dir = a.log_dir or os.date "runs/%b%d_%H-%M-%S" .. a.comment
   self.max_queue, self.flush_secs = math.max(a.max_queue, 1), a.flush_secs
   make_folder("log_dir", self.log_dir)
   opened = opened + 1
   -- The address of the table distinguishes writers that are created in the same second.
   local mark = tostring(self):match "0x(%x+)" or "0"
   self.path = ("%s/events.out.tfevents.%d.tlua.%s.%d%s"):format(self.log_dir, os.time(), mark,
      opened, a.filename_suffix)
   local file, message = io.open(self.path, "wb")
   if not file then fail("log_dir", self.log_dir, message) end
   file:setvbuf("full", 1 << 16)
   self.file, self.waiting, self.flushed = file, 0, torch.io.clock()
   self:put(bytes(3, "brain.Event:2"), nil)
   self:flush()
end

SummaryWriter.__tostring = nil

-- Writes an event with the given content to the file.
function SummaryWriter:put(content, step, walltime)
   if not self.file then torch.raise "SummaryWriter: it was closed" end
   local event = double(1, walltime or torch.io.time())
      .. (step and int(2, step) or "") .. content
   if self.failed then return end
   local ok, message = self.file:write(wire.record(event))
   if not ok then return lost(self, message) end
   self.waiting = self.waiting + 1
   if self.waiting >= self.max_queue or torch.io.clock() - self.flushed > self.flush_secs then
      self:flush()
   end
end

-- Returns the arguments of the method `who`, unless their tag is empty, which is an error.
local function with_tag(who, a)
   if a.tag == "" then args.refuse(who, "tag", "a name", a.tag) end
   return a
end

-- Encodes a value of a summary, which has a tag. `plugin`, if given, is the name of the TensorBoard
-- plugin that shows the value.
local function summary(tag, content, plugin, plugin_content)
   local metadata = ""
   if plugin then
      metadata = bytes(9, bytes(1, bytes(1, plugin) .. bytes(2, plugin_content or "")))
   end
   return bytes(5, bytes(1, bytes(1, tag) .. content .. metadata))
end

local take_scalar = args.signature [[add_scalar(tag: string, scalar_value: any,
   global_step: integer?, walltime: number?)]]

--- Adds a point to a curve.
---@param tag string
---@param scalar_value number|Tensor  the value at this step
---@param global_step? integer  the step of the training
---@param walltime? number  seconds since 1970; the present time by default
function SummaryWriter:add_scalar(...)
   local a = with_tag("add_scalar", take_scalar(...))
   local value = args.to_number("add_scalar", "scalar_value", a.scalar_value)
   self:put(summary(a.tag, float(2, value)), a.global_step, a.walltime)
end

-- Returns the writer for the subfolder `name` of this writer's folder. The writer is created when
-- it is first needed.
local function below(self, name)
   self.others = self.others or {}
   local other = self.others[name]
   if not other then
      other = SummaryWriter(self.log_dir .. "/" .. name, {max_queue = self.max_queue})
      self.others[name] = other
   end
   return other
end

local take_scalars = args.signature [[add_scalars(main_tag: string, tag_scalar_dict: table,
   global_step: integer?, walltime: number?)]]

--- Adds points to several curves in one plot. Each curve is a separate run, as in PyTorch.
---@param main_tag string  the name of the plot
---@param tag_scalar_dict table<string, number>  the values of the curves by their names
---@param global_step? integer  the step of the training
---@param walltime? number  seconds since 1970; the present time by default
function SummaryWriter:add_scalars(...)
   local a, values = take_scalars(...), {}
   if a.main_tag == "" then args.refuse("add_scalars", "main_tag", "a name", a.main_tag) end
   for name, value in pairs(a.tag_scalar_dict) do
      if type(name) ~= "string" then
         args.refuse("add_scalars", "tag_scalar_dict", "strings as names", name)
      end
      values[name] = args.to_number("add_scalars", ("tag_scalar_dict[%q]"):format(name), value)
   end
   for name, value in pairs(values) do
      below(self, a.main_tag:gsub("/", "_") .. "_" .. name):add_scalar(a.main_tag, value,
         a.global_step, a.walltime)
   end
end

-- Returns the upper limits of TensorFlow's buckets. On both sides of 0, each limit is 10 % larger
-- than the previous one.
local function limits()
   local list, v = {}, 1e-12
   while v < 1e20 do
      list[#list + 1] = v
      v = v * 1.1
   end
   local all = {}
   for i = #list, 1, -1 do all[#all + 1] = -list[i] end
   all[#all + 1] = 0
   return table.move(list, 1, #list, #all + 1, all)
end
local edges

-- Counts the values in TensorFlow's buckets. Returns the upper limits and the counts, from the
-- first to the last bucket that is not empty.
local function buckets(values)
   edges = edges or limits()
   local at = torch.bucketize(values,
      torch.tensor(edges, {dtype = "float64", device = values.device}))
   local count = {}
   for _, i in ipairs(at:tolist()) do count[i] = (count[i] or 0) + 1 end
   local first, last = math.huge, -math.huge
   for i in pairs(count) do first, last = math.min(first, i), math.max(last, i) end
   local right, found = {}, {}
   if first > 1 then right[1], found[1] = edges[first - 1], 0 end
   for i = first, last do
      right[#right + 1] = edges[i] or math.huge
      found[#found + 1] = count[i] or 0
   end
   return right, found
end

local take_histogram = args.signature [[add_histogram(tag: string, values: tensor|table,
   global_step: integer?, bins: string = 'tensorflow', walltime: number?)]]

--- Adds a histogram of values. NaN and infinities are an error, as in PyTorch.
---@param tag string
---@param values Tensor|number[]
---@param global_step? integer  the step of the training
---@param bins? "tensorflow"  the only buckets here
---@param walltime? number  seconds since 1970; the present time by default
function SummaryWriter:add_histogram(...)
   local a = with_tag("add_histogram", take_histogram(...))
   if a.bins ~= "tensorflow" then
      args.refuse("add_histogram", "bins", '"tensorflow"', a.bins)
   end
   local t = torch.is_tensor(a.values) and a.values or torch.tensor(a.values)
   t = t:detach():to("cpu"):double():flatten()
   if t:numel() == 0 then torch.raise "add_histogram: values: there are none" end
   if not t:isfinite():all():item() then
      torch.raise "add_histogram: values: expected finite numbers, some are not"
   end
   local right, found = buckets(t)
   local histogram = double(1, t:min():item()) .. double(2, t:max():item())
      .. double(3, t:numel() + 0.0) .. double(4, t:sum():item()) .. double(5, (t * t):sum():item())
      .. protobuf.packed(6, "<d", right) .. protobuf.packed(7, "<d", found)
   self:put(summary(a.tag, bytes(5, histogram)), a.global_step, a.walltime)
end

-- Converts an image to uint8 of shape (H, W, C).
local function picture(who, image, dataformats)
   local expected <const> = "floating-point numbers from 0 to 1, integers 0 and 1, or uint8"
   if not torch.is_tensor(image) or image:is_complex() then
      args.refuse(who, "img_tensor", expected, image)
   end
   image = image:detach():to "cpu"
   if not image:is_floating_point() and image.dtype ~= "uint8" then
      if image:gt(1):any():item() then args.refuse(who, "img_tensor", expected, image) end
      image = image:double()
   end
   if image:dim() ~= #dataformats then
      torch.raise(("%s: img_tensor: expected %d dimensions for dataformats %s, got shape (%s)")
         :format(who, #dataformats, dataformats, table.concat(image.shape, ", ")))
   end
   if dataformats == "CHW" then
      image = image:permute(2, 3, 1)
   elseif dataformats == "HW" then
      image = image:unsqueeze(3)
   elseif dataformats ~= "HWC" then
      torch.raise(("%s: dataformats: expected CHW, HWC or HW, got %s"):format(who, dataformats))
   end
   local c = image.shape[3]
   if c ~= 1 and c ~= 3 and c ~= 4 then
      torch.raise(("%s: img_tensor: expected 1, 3 or 4 channels, got %d"):format(who, c))
   end
   return wire.pixels(image)
end

local function image_proto(image)
   return bytes(4, int(1, image.shape[1]) .. int(2, image.shape[2]) .. int(3, image.shape[3])
      .. bytes(4, wire.png(image)))
end

local take_image = args.signature [[add_image(tag: string, img_tensor: any, global_step: integer?,
   walltime: number?, dataformats: string = 'CHW')]]

--- Adds an image, whose values are floating-point numbers from 0 to 1 or uint8.
---@param tag string
---@param img_tensor Tensor  (C, H, W) with C = 1, 3 or 4
---@param global_step? integer  the step of the training
---@param walltime? number  seconds since 1970; the present time by default
---@param dataformats? "CHW"|"HWC"|"HW"  the order of the dimensions
function SummaryWriter:add_image(...)
   local a = with_tag("add_image", take_image(...))
   local image = picture("add_image", a.img_tensor, a.dataformats)
   self:put(summary(a.tag, image_proto(image)), a.global_step, a.walltime)
end

local take_figure = args.signature [[add_figure(tag: string, figure: any, global_step: integer?,
   close: boolean = true, walltime: number?)]]

--- Adds a figure of torch.utils.plot, which shows curves or images.
---@param tag string
---@param figure utils.plot.Figure
---@param global_step? integer  the step of the training
---@param close? boolean  has no effect, since no window shows the figure
---@param walltime? number  seconds since 1970; the present time by default
function SummaryWriter:add_figure(...)
   local a = with_tag("add_figure", take_figure(...))
   if torch.type(a.figure) ~= "utils.plot.Figure" then
      args.refuse("add_figure", "figure", "a result of a function of torch.utils.plot", a.figure)
   end
   local png = a.figure:png()
   -- in a PNG file, the image's size follows the text "IHDR"
   local width, height = (">I4I4"):unpack(png, 17)
   local image = int(1, height) .. int(2, width) .. int(3, 3) .. bytes(4, png)
   self:put(summary(a.tag, bytes(4, image)), a.global_step, a.walltime)
end

local take_audio = args.signature [[add_audio(tag: string, snd_tensor: any, global_step: integer?,
   sample_rate: count = 44100, walltime: number?)]]

--- Adds a sound, stored as 16-bit WAV. Samples are numbers from -1 to 1; samples outside this range
--- are clipped.
---@param tag string
---@param snd_tensor Tensor  (L) or (1, L); (2, L) for two channels
---@param global_step? integer  the step of the training
---@param sample_rate? integer  44100 a second by default
---@param walltime? number  seconds since 1970; the present time by default
function SummaryWriter:add_audio(...)
   local a = with_tag("add_audio", take_audio(...))
   local sound, rate = a.snd_tensor, a.sample_rate
   if not torch.is_tensor(sound) or sound:dim() < 1 or sound:dim() > 2 or sound:numel() == 0
      or sound:dim() == 2 and sound:size(1) > 2 then
      args.refuse("add_audio", "snd_tensor", "a tensor (L), (1, L) or (2, L)", sound)
   end
   if sound:dim() == 1 then sound = sound:unsqueeze(1) end
   local channels, frames = sound:size(1), sound:size(2)
   local samples = (sound:detach():to "cpu":double():clamp(-1, 1) * 32767):trunc():to "int64"
   local data, list = {}, samples:t():flatten():tolist()
   for i, sample in ipairs(list) do data[i] = ("<i2"):pack(sample) end
   local body = table.concat(data)
   local wav = "RIFF" .. ("<I4"):pack(36 + #body) .. "WAVEfmt "
      .. ("<I4I2I2I4I4I2I2"):pack(16, 1, channels, rate, rate * channels * 2, channels * 2, 16)
      .. "data" .. ("<I4"):pack(#body) .. body
   local audio = float(1, rate + 0.0) .. int(2, channels) .. int(3, frames) .. bytes(4, wav)
      .. bytes(5, "audio/wav")
   self:put(summary(a.tag, bytes(6, audio)), a.global_step, a.walltime)
end

local take_images = args.signature [[add_images(tag: string, img_tensor: any, global_step: integer?,
   walltime: number?, dataformats: string = 'NCHW')]]

--- Adds a batch of images as one image, with up to 8 images in a row.
---@param tag string
---@param img_tensor Tensor  (N, C, H, W)
---@param global_step? integer  the step of the training
---@param walltime? number  seconds since 1970; the present time by default
---@param dataformats? "NCHW"|"NHWC"  the order of the dimensions
function SummaryWriter:add_images(...)
   local a = with_tag("add_images", take_images(...))
   local images = a.img_tensor
   if a.dataformats ~= "NCHW" and a.dataformats ~= "NHWC" then
      args.refuse("add_images", "dataformats", "NCHW or NHWC", a.dataformats)
   end
   if not torch.is_tensor(images) or images:dim() ~= 4 then
      args.refuse("add_images", "img_tensor", "a tensor (N, C, H, W)", images)
   end
   if a.dataformats == "NHWC" then images = images:permute(1, 4, 2, 3) end
   local n, c, h, w = table.unpack(images.shape)
   if n == 0 then args.refuse("add_images", "img_tensor", "at least one image", images) end
   local across = math.min(n, 8)
   local down = (n + across - 1) // across
   local sheet = torch.zeros(c, down * h, across * w, {dtype = images.dtype})
   for i = 0, n - 1 do
      local y, x = i // across * h, i % across * w
      sheet[{{}, {y + 1, y + h}, {x + 1, x + w}}] = images[i + 1]:detach():to "cpu"
   end
   self:add_image(a.tag, sheet, a.global_step, a.walltime)
end

local take_text = args.signature [[add_text(tag: string, text_string: string, global_step: integer?,
   walltime: number?)]]

--- Adds a text, which may be Markdown.
---@param tag string
---@param text_string string  the text
---@param global_step? integer  the step of the training
---@param walltime? number  seconds since 1970; the present time by default
function SummaryWriter:add_text(...)
   local a = with_tag("add_text", take_text(...))
   local tensor = int(1, 7) .. bytes(2, bytes(2, int(1, 1))) .. bytes(8, a.text_string)
   self:put(summary(a.tag .. "/text_summary", bytes(8, tensor), "text", int(1, 0)), a.global_step,
      a.walltime)
end

local take_curve = args.signature [[add_pr_curve(tag: string, labels: tensor|table,
   predictions: tensor|table, global_step: integer?, num_thresholds: count = 127,
   weights: tensor|table?, walltime: number?)]]

--- Adds a curve of precision and recall for thresholds from 0 to 1.
---@param tag string
---@param labels Tensor|number[]  0 or 1
---@param predictions Tensor|number[]  probabilities of the label 1
---@param global_step? integer  the step of the training
---@param num_thresholds? integer  at least 2; 127 by default
---@param weights? Tensor|number[]  of the predictions, 1 by default
---@param walltime? number  seconds since 1970; the present time by default
function SummaryWriter:add_pr_curve(...)
   local a = with_tag("add_pr_curve", take_curve(...))
   local n = a.num_thresholds
   if n < 2 then args.refuse("add_pr_curve", "num_thresholds", "at least 2", n) end
   local truth, guess = wire.numbers(a.labels), wire.numbers(a.predictions)
   local weights = a.weights and wire.numbers(a.weights)
   if #truth ~= #guess then
      torch.raise(("add_pr_curve: expected as many predictions as labels, got %d and %d"):format(
         #guess, #truth))
   end
   if weights and #weights ~= #guess then
      torch.raise(("add_pr_curve: expected as many weights as predictions, got %d and %d"):format(
         #weights, #guess))
   end
   -- Each prediction is counted at the highest threshold that it reaches.
   local hits, misses = {}, {}
   for i = 1, n do hits[i], misses[i] = 0, 0 end
   for i, p in ipairs(guess) do
      local at = math.min(math.max(math.floor(p * (n - 1)), 0), n - 1) + 1
      local list = truth[i] > 0.5 and hits or misses
      list[at] = list[at] + (weights and weights[i] or 1)
   end
   for i = n - 1, 1, -1 do
      hits[i], misses[i] = hits[i] + hits[i + 1], misses[i] + misses[i + 1]
   end
   local rows = {}
   local function row(fn)
      for i = 1, n do rows[#rows + 1] = fn(hits[i], misses[i]) end
   end
   row(function(tp) return tp end)
   row(function(_, fp) return fp end)
   row(function(_, fp) return misses[1] - fp end)
   row(function(tp) return hits[1] - tp end)
   row(function(tp, fp) return tp / math.max(1e-7, tp + fp) end)
   row(function(tp) return tp / math.max(1e-7, hits[1]) end)
   local shape = bytes(2, int(1, 6)) .. bytes(2, int(1, n))
   local tensor = int(1, 1) .. bytes(2, shape) .. protobuf.packed(5, "<f", rows)
   self:put(summary(a.tag, bytes(8, tensor), "pr_curves", int(1, 0) .. int(2, n)), a.global_step,
      a.walltime)
end

-- Encodes a hyperparameter as a google.protobuf.Value. Also returns the number that TensorBoard's
-- plugin for hyperparameters gives to the value's type.
local function hparam_value(name, value)
   if torch.is_tensor(value) then value = value:item() end
   if type(value) == "boolean" then return int(4, value and 1 or 0), 2 end
   if type(value) == "number" then return double(2, value + 0.0), 3 end
   if type(value) == "string" then return bytes(3, value), 1 end
   return args.refuse("add_hparams", name, "a number, a string or a boolean", value)
end

-- Returns the sorted keys of the table `t`, which is the argument `name` of add_hparams.
local function sorted(t, name)
   local keys = {}
   for key in pairs(t) do
      if type(key) ~= "string" then args.refuse("add_hparams", name, "strings as names", key) end
      keys[#keys + 1] = key
   end
   table.sort(keys)
   return keys
end

local take_hparams = args.signature [[add_hparams(hparam_dict: table, metric_dict: table,
   hparam_domain_discrete: names?, run_name: string?, global_step: integer?)]]

--- Adds the hyperparameters of a run, and the metrics that the run has reached with them.
---@param hparam_dict table<string, any>  the values of the hyperparameters by their names
---@param metric_dict table<string, number>  the values of the metrics by their names
---@param hparam_domain_discrete? table<string, any[]>  all values that a hyperparameter may have
---@param run_name? string  the name of a subfolder, the time by default
---@param global_step? integer  the step of the metrics
function SummaryWriter:add_hparams(...)
   local a = take_hparams(...)
   local hparams, metrics = a.hparam_dict, a.metric_dict
   local domains = a.hparam_domain_discrete or {}
   for name in pairs(domains) do
      if hparams[name] == nil then
         torch.raise(("add_hparams: hparam_domain_discrete: %s is no hyperparameter"):format(name))
      end
   end
   local infos, values, names = {}, {}, {}
   for i, name in ipairs(sorted(hparams, "hparam_dict")) do
      local value, kind = hparam_value(name, hparams[name])
      local domain = {}
      for k, member in ipairs(domains[name] or domain) do
         domain[k] = bytes(1, (hparam_value(name, member)))
      end
      domain = #domain > 0 and bytes(5, table.concat(domain)) or ""
      infos[i] = bytes(4, bytes(1, name) .. int(4, kind) .. domain)
      values[i] = bytes(1, bytes(1, name) .. bytes(2, value))
   end
   local metric_names, numbers = sorted(metrics, "metric_dict"), {}
   for i, name in ipairs(metric_names) do
      numbers[i] = args.to_number("add_hparams", ("metric_dict[%q]"):format(name), metrics[name])
      names[i] = bytes(5, bytes(1, bytes(2, name)))
   end
   local run = below(self, a.run_name or tostring(os.time()))
   local function put(tag, field, content)
      local data = int(1, 0) .. bytes(field, content)
      run:put(summary("_hparams_/" .. tag, "", "hparams", data))
   end
   put("experiment", 2, table.concat(infos) .. table.concat(names))
   put("session_start_info", 3, table.concat(values))
   put("session_end_info", 4, int(1, 1))
   for i, name in ipairs(metric_names) do
      run:add_scalar(name, numbers[i], a.global_step)
   end
   run:flush()
end

local function node_def(name, op, inputs, shape)
   local text = bytes(1, name) .. bytes(2, op)
   for _, input in ipairs(inputs) do text = text .. bytes(3, input) end
   if shape then
      local dims = {}
      for i, size in ipairs(shape) do dims[i] = bytes(2, int(1, size)) end
      -- This is the field `shape` of the message AttrValue.list.
      local list = bytes(1, bytes(7, table.concat(dims)))
      text = text .. bytes(5, bytes(1, "_output_shapes") .. bytes(2, list))
   end
   return bytes(1, text)
end

--- Adds the graph of one call of a model. It shows the autograd nodes, and the parameters under
--- their paths.
---@param model nn.Module
---@param ... any  the arguments of the call
function SummaryWriter:add_graph(model, ...)
   if type(model) ~= "table" or not model.named_parameters then
      args.refuse("add_graph", "model", "a module", model)
   end
   local inputs = table.pack(...)
   local result
   do
      local _ <close> = torch.enable_grad()
      result = model(table.unpack(inputs, 1, inputs.n))
   end
   if not torch.is_tensor(result) or not result.grad_fn then
      torch.raise "add_graph: the model's result must be a tensor with a grad_fn"
   end
   local paths = {}
   for path, parameter in model:named_parameters() do paths[#paths + 1] = {parameter, path} end
   local seen, parts, waiting, leaves = {}, {}, {result.grad_fn}, {}
   local function name_of(node) return tostring(node):match "^<(.*)>$" .. "_" .. node.sequence end
   local function leaf_name(leaf)
      for _, pair in ipairs(paths) do
         if pair[1] == leaf then
            local name = (pair[2]:gsub("%.", "/"))
            if not leaves[name] then
               leaves[name] = true
               parts[#parts + 1] = node_def(name, "Parameter", {}, leaf.shape)
            end
            return name
         end
      end
      return nil
   end
   seen[result.grad_fn.sequence] = true
   while #waiting > 0 do
      local node = table.remove(waiting)
      local names = {}
      for _, edge in ipairs(node.next_functions) do
         local from = edge[1]
         if torch.is_tensor(from) then
            names[#names + 1] = leaf_name(from)
         elseif from then
            names[#names + 1] = name_of(from)
            if not seen[from.sequence] then
               seen[from.sequence] = true
               waiting[#waiting + 1] = from
            end
         end
      end
      parts[#parts + 1] = node_def(name_of(node), tostring(node):match "^<(.-)Backward0>$"
         or node.name, names, node.shapes[1])
   end
   -- This is the field `producer` of the message `versions`.
   self:put(bytes(4, table.concat(parts) .. bytes(4, int(1, 22))))
   self:flush()
end

local take_embedding = args.signature [[add_embedding(mat: any, metadata: any?,
   label_img: any?, global_step: integer = 0, tag: string = 'default', metadata_header: any?)]]

--- Adds points for the projector. The rows of `mat` are their positions. If the files cannot be
--- written, prints a message on stderr.
---@param mat Tensor  (N, D)
---@param metadata? any[]  a label for each point, or a list of several labels for each point
---@param label_img? Tensor  (N, C, H, W), an image for each point
---@param global_step? integer  a part of the embedding's name, as `tag` is
---@param tag? string
---@param metadata_header? string[]  the names of several labels
function SummaryWriter:add_embedding(...)
   local a = take_embedding(...)
   local failure
   local function attempt(name, ok, message)
      if not ok and not failure then failure = ("%s/%s: %s"):format(self.log_dir, name, message) end
   end
   local function write(name, text)
      if failure then return end
      local out, message = io.open(self.log_dir .. "/" .. name, "wb")
      attempt(name, out, message)
      if not out then return end
      attempt(name, out:write(text))
      attempt(name, out:close())
   end
   -- The file is written again as a whole, since a later embedding replaces an earlier one of the
   -- same name.
   local list = self.embeddings or {}
   local part, name = require "tlua.tensorboard.embedding".write(a.mat, a,
      function(folder) attempt(folder, torch.io.make_folder(self.log_dir .. "/" .. folder)) end,
      write)
   if not failure then
      if not list[name] then list[#list + 1] = name end
      list[name] = part
      local parts = {}
      for i, key in ipairs(list) do parts[i] = list[key] end
      write("projector_config.pbtxt", table.concat(parts))
      self.embeddings = list
   end
   if failure then
      notice("SummaryWriter: %s; the embedding is not written", failure)
   end
end

--- Writes buffered events.
function SummaryWriter:flush()
   for _, other in pairs(self.others or {}) do other:flush() end
   if not self.file then return end
   local ok, message = self.file:flush()
   self.waiting, self.flushed = 0, torch.io.clock()
   if not ok then lost(self, message) end
end

--- Closes the file; nothing can be added afterwards.
function SummaryWriter:close()
   for _, other in pairs(self.others or {}) do other:close() end
   if not self.file then return end
   self:flush()
   self.file:close()
   self.file = nil
end

SummaryWriter.__close = SummaryWriter.close

return SummaryWriter
