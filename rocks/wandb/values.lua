-- values.lua - the values other than numbers that a run can log: histograms, images and tables.
-- Each image and table is written to a file, and the run's records have the paths of these files.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local json = require "tlua.utils.json"

local M = {}

-- Returns a number that JSON can represent unchanged. For other numbers, returns "NaN", "Infinity"
-- or "-Infinity".
local function number(x)
   if x ~= x then return "NaN" end
   if x == math.huge then return "Infinity" end
   return x == -math.huge and "-Infinity" or x
end

-- Histograms --------------------------------------------------------------------------------------

local take_histogram = args.signature [[wandb.Histogram(sequence: tensor|table?,
   np_histogram: table?, num_bins: count = 64)]]

--- A histogram of numbers.
---
---     local wandb = torch.utils.wandb
---     local histogram = wandb.Histogram({1, 2, 3, 3}, {num_bins = 2})
---     print(table.concat(histogram.histogram, " "))
---     --> 1 3
---@class utils.wandb.Histogram
---@field histogram integer[]  the counts
---@field bins number[]  the edges of the bins, one more than there are counts
---@overload fun(sequence?: Tensor|number[], options?: table): utils.wandb.Histogram
local Histogram = class.class("utils.wandb.Histogram")
M.Histogram = Histogram

---@param sequence? Tensor|number[]
---@param options? {np_histogram: table, num_bins: integer}  np_histogram: {counts, edges}, which
--- replace `sequence`; num_bins: from 1 to 512
function Histogram:__init(...)
   local title, a = "wandb.Histogram", take_histogram(...)
   if (a.sequence == nil) == (a.np_histogram == nil) then
      torch.raise(title .. ": expected sequence or np_histogram, got "
         .. (a.sequence and "both" or "neither"))
   end
   if a.np_histogram then
      local counts, edges = a.np_histogram[1], a.np_histogram[2]
      if type(counts) ~= "table" or type(edges) ~= "table" or #edges ~= #counts + 1 then
         args.refuse(title, "np_histogram", "{counts, edges} with one edge more than counts",
            a.np_histogram)
      end
      for name, list in pairs {counts = counts, edges = edges} do
         for i = 1, #list do
            local value = list[i]
            if type(value) ~= "number" or value - value ~= 0
               or name == "edges" and i > 1 and value < list[i - 1]
               or name == "counts" and value < 0 then
               args.refuse(title, ("np_histogram, %s, value %d"):format(name, i), name == "counts"
                  and "a finite number of at least 0" or "finite numbers in rising order", value)
            end
         end
      end
      self.histogram, self.bins = counts, edges
      return
   end
   if a.num_bins < 1 or a.num_bins > 512 then
      args.refuse(title, "num_bins", "an integer from 1 to 512", a.num_bins)
   end
   local x = a.sequence
   if not torch.is_tensor(x) then
      local ok, made = pcall(torch.tensor, x, {dtype = "float64"})
      if not ok then args.refuse(title, "sequence", "numbers", x) end
      x = made
   end
   if x.is_quantized then x = x:dequantize() end
   if x:is_complex() then args.refuse(title, "sequence", "real numbers", x) end
   x = x:detach():cpu():to "float64":flatten()
   if x:numel() == 0 or not x:isfinite():all():item() then
      args.refuse(title, "sequence", "finite numbers", x)
   end
   local low, high = x:min():item(), x:max():item()
   if high - low == math.huge then
      args.refuse(title, "sequence", "numbers whose range is finite", x)
   end
   if low == high then low, high = low - 0.5, high + 0.5 end
   self.histogram = torch.histc(x, a.num_bins, low, high):long():tolist()
   self.bins = torch.linspace(low, high, a.num_bins + 1, {dtype = "float64"}):tolist()
end

-- Files -------------------------------------------------------------------------------------------

-- Returns the path of a new file for the value `key`, relative to the run's folder `files`.
local function place(kind, key, step, sum, ending)
   local name = key:gsub("[^%w_./-]", "_"):gsub("%.%.+", "_"):gsub("/+", "/"):gsub("^/", "")
   return ("media/%s/%s_%d_%s%s"):format(kind, name, step, sum:sub(1, 20), ending)
end

-- Writes a file of the run. Adds the file's path, checksum and size to `entry`, and returns
-- `entry`.
local function write(run, kind, key, contents, ending, entry)
   local sum = torch.io._sha256(contents)
   entry.path = place(kind, key, run.step, sum, ending)
   entry.sha256, entry.size = sum, #contents
   run:_write_file(entry.path, contents)
   return entry
end

local take_image = args.signature [[wandb.Image(data_or_path: tensor|string, caption: string?)]]

--- An image, which is stored as a PNG file.
---
---     local wandb = torch.utils.wandb
---     local image = wandb.Image(torch.rand(3, 8, 6), {caption = "noise"})
---     print(image.width, image.height, image.caption)
---     --> 6	8	noise
---@class utils.wandb.Image
---@field width integer  the width in pixels
---@field height integer  the height in pixels
---@field caption string?  the text below the image
---@overload fun(data_or_path: Tensor|string, options?: table): utils.wandb.Image
local Image = class.class("utils.wandb.Image")
M.Image = Image

---@param data_or_path Tensor|string  a tensor of shape (height, width), or (channels, height,
--- width) with 1 or 3 channels, with bytes or floats from 0 to 1; or the path of an image file
---@param options? {caption: string}
function Image:__init(...)
   local title, a = "wandb.Image", take_image(...)
   local x = a.data_or_path
   if type(x) == "string" then
      local ok, read = pcall(torch.load, x)
      if not ok then torch.raise(("%s: %s"):format(title, (read:gsub("^[^\n]-:%d+: ", "")))) end
      if not torch.is_tensor(read) then args.refuse(title, "data_or_path", "an image", x) end
      x = read
   end
   x = x:detach():cpu()
   if x:dim() == 2 then x = x:unsqueeze(1) end
   local is_image = x:dim() == 3 and (x:size(1) == 1 or x:size(1) == 3) and x:numel() > 0
   if not is_image or not (x:is_floating_point() or x.dtype == "uint8" or x.dtype == "bool") then
      args.refuse(title, "data_or_path", "uint8 or floats from 0 to 1 of shape (height, width) or "
         .. "(channels, height, width) with 1 or 3 channels", a.data_or_path)
   end
   if x.dtype == "bool" then x = x:float() end
   if x:is_floating_point() then
      if not x:isfinite():all():item() then
         args.refuse(title, "data_or_path", "finite numbers", a.data_or_path)
      end
      x = (x * 255):round():clamp(0, 255):to "uint8"
   end
   self.pixels, self.caption = x:contiguous(), a.caption
   self.height, self.width = x:size(2), x:size(3)
end

function Image:_entry(run, key)
   local bytes = torch.io.encode_png(self.pixels)
   return write(run, "images", key, torch.io.text(bytes, 1, bytes:numel()), ".png",
      {_type = "image-file", format = "png", width = self.width, height = self.height,
         caption = self.caption})
end

local take_table = args.signature "wandb.Table(columns: table?, data: table?)"

--- A table of numbers, texts and booleans.
---
---     local scores = torch.utils.wandb.Table {columns = {"name", "score"}}
---     scores:add_data("first", 0.5)
---     print(#scores.data, scores.data[1][2])
---     --> 1	0.5
---@class utils.wandb.Table
---@field columns string[]  the columns' names
---@field data any[][]  the rows
---@overload fun(options?: table): utils.wandb.Table
local Table = class.class("utils.wandb.Table")
M.Table = Table

-- Returns a row of a table. Raises an error unless the number of its values, `n`, is the number of
-- columns.
local function check_row(title, columns, row, n)
   if n ~= #columns then
      torch.raise(("%s: expected %d values, one for each column, got %d"):format(title,
         #columns, n))
   end
   for i = 1, n do
      local value = row[i]
      if torch.is_tensor(value) and value:numel() == 1 then value = value:item() end
      local kind = type(value)
      if kind ~= "nil" and kind ~= "number" and kind ~= "string" and kind ~= "boolean" then
         args.refuse(title, columns[i], "a number, a text or a boolean", value)
      end
      row[i] = value
   end
   return row
end

---@param options? {columns: string[], data: any[][]}
function Table:__init(...)
   local title, a = "wandb.Table", take_table(...)
   self.columns, self.data = {}, {}
   for i, name in ipairs(a.columns or {"Input", "Output", "Expected"}) do
      if type(name) ~= "string" then args.refuse(title, "columns", "names", a.columns) end
      self.columns[i] = name
   end
   for _, row in ipairs(a.data or {}) do
      if type(row) ~= "table" then args.refuse(title, "data", "a list of rows", row) end
      self.data[#self.data + 1] = check_row(title, self.columns,
         table.move(row, 1, #self.columns, 1, {}), math.max(#row, 0))
   end
end

--- Adds a row.
---@param ... any  a value for each column
function Table:add_data(...)
   self.data[#self.data + 1] = check_row("wandb.Table.add_data", self.columns, {...},
      select("#", ...))
end

function Table:_entry(run, key)
   local rows = json.as_array {}
   for i, row in ipairs(self.data) do
      local cells = json.as_array {}
      for k = 1, #self.columns do
         local value = row[k]
         if value == nil then value = json.null end
         cells[k] = type(value) == "number" and number(value) or value
      end
      rows[i] = cells
   end
   local text = json.encode {columns = json.as_array {table.unpack(self.columns)}, data = rows}
   return write(run, "table", key, text, ".table.json", {_type = "table-file",
      ncols = #self.columns, nrows = #self.data, log_mode = "IMMUTABLE"})
end

-- JSON --------------------------------------------------------------------------------------------

local MOST <const> = 32 -- a tensor with more than 32 elements is logged as a histogram

local function plain(value)
   if type(value) == "number" then return number(value) end
   if type(value) ~= "table" or value == json.null then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = plain(item) end
   return (#copy > 0 or json.is_array(value)) and json.as_array(copy) or copy
end

--- Converts a value to data that JSON can represent. Images and tables become the paths of files
--- that are written.
---@param title string  the function's name, for messages
---@param key string  the value's name
---@param value any
---@param run utils.wandb.Run
---@param depth? integer
---@return any
function M.convert(title, key, value, run, depth)
   depth = depth or 0
   local kind = type(value)
   if kind == "string" and not utf8.len(value) then
      args.refuse(title, key, "a text in UTF-8", value)
   end
   if kind == "number" or kind == "string" or kind == "boolean" then return value end
   if torch.is_tensor(value) then
      if value.is_quantized then value = value:dequantize() end
      if value:is_complex() then args.refuse(title, key, "a real tensor", value) end
      local x = value:detach():cpu()
      if x:numel() == 1 then return x:item() end
      if x:numel() <= MOST then return plain(x:tolist()) end
      if not x:to "float64":isfinite():all():item() then
         torch.raise(("%s: %s: expected finite numbers, as a tensor with more than %d elements is "
            .. "kept as a histogram; got %s"):format(title, key, MOST, args.describe(value)))
      end
      value = Histogram(x:flatten())
   end
   if class.isinstance(value, Histogram) then
      return {_type = "histogram", values = json.as_array {table.unpack(value.histogram)},
         bins = json.as_array {table.unpack(value.bins)}}
   elseif class.isinstance(value, Image) or class.isinstance(value, Table) then
      return value:_entry(run, key)
   elseif kind == "table" and (not getmetatable(value) or json.is_array(value)) and depth < 20 then
      local copy = {}
      for name, item in pairs(value) do
         if #value > 0 and (math.type(name) ~= "integer" or name < 1 or name > #value)
            or #value == 0 and (type(name) ~= "string" or not utf8.len(name)) then
            args.refuse(title, key, "a list, or a table whose keys are texts", name)
         end
         copy[name] = M.convert(title, ("%s.%s"):format(key, tostring(name)), item, run, depth + 1)
      end
      return #copy > 0 and json.as_array(plain(copy)) or copy
   end
   args.refuse(title, key, "a number, a text, a boolean, a tensor, Histogram, Image or Table",
      value)
end

--- Encodes a value as JSON. A value that is NaN or infinite becomes NaN, Infinity or -Infinity
--- without quotes, as in Python's json.
---@param value any
---@return string
function M.encode(value)
   local word = type(value) == "number" and number(value)
   if type(word) == "string" then return word end
   return json.encode(plain(value))
end

--- Splits a value into leaves, which are the values that the run's records contain. Returns them as
--- a list of {path, JSON}. A table with string keys is split; each other value, such as a list, is
--- one leaf.
---@param key string
---@param value any
---@return {path: string[], json: string}[]
function M.leaves(key, value)
   local list = {}
   local function add(path, item)
      local is_object = type(item) == "table" and item ~= json.null and not json.is_array(item)
      if is_object and next(item) ~= nil then
         local names = {}
         for name in pairs(item) do names[#names + 1] = tostring(name) end
         table.sort(names)
         for _, name in ipairs(names) do
            local longer = table.move(path, 1, #path, 1, {})
            longer[#longer + 1] = name
            add(longer, item[name])
         end
      else
         list[#list + 1] = {path = path, json = M.encode(item)}
      end
   end
   add({key}, value)
   return list
end

return M
