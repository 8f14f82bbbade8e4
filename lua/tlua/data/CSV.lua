-- CSV.lua - reads a text file of rows in batches:
--
--    local rows = torch.data.CSV("people.csv", {dtypes = {name = "string", age = "int64"}})
--    for piece in rows:iter() do print(piece.age:float():mean(), piece.name[1]) end
--    local images = torch.data.CSV("digits.csv", {header = false}):tensor()
--
-- A batch is a table that maps the names of the columns to 1-d tensors, or to lists of strings. A
-- file that is not compressed is mapped, so it may be larger than memory.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local IterableDataset = require "tlua.data.IterableDataset"
local source = require "tlua.io.source"

local name <const> = "data.CSV"

local signature = args.signature [[data.CSV(path: string, delimiter: string?, quote: string?,
   batch_size: integer = 65536, header: any = true, columns: table?, dtypes: any?)]]

---     local file = io.open("points.csv", "w")
---     file:write("x,y\n1,2\n3,4\n"):close()
---     local csv = torch.data.CSV "points.csv"
---     print(table.concat(csv.names, " "), csv:tensor():sum(1))
---     --> x y	tensor([4, 6])
---@class data.CSV: data.IterableDataset
---@field path string  the path of the file
---@field names (string|integer)[]  the columns that are read, in the file's order
---@field dtypes table<string|integer, string>  the columns' dtypes by name; "string" for text
---@overload fun(path: string, options?: table): data.CSV
local CSV, parent = class.class(name, IterableDataset)

-- The number of rows that are read to guess the type of a column whose dtype is not given.
local looked_at <const> = 1000

local function fail(self, message)
   message = message:gsub("column (%d+)", function(position)
      local column = self.all_names and self.all_names[tonumber(position)]
      return type(column) == "string" and ("column %s (%q)"):format(position, column) or nil
   end, 1)
   torch.raise(("%s: %s: %s"):format(name, self.path, message))
end

local function check_char(option, text, empty)
   local wrong = text == "\n" or text == "\r" or #text > 1 or #text == 0 and not empty
   if wrong then args.refuse(name, option, "one character", text) end
end

local function check(a)
   a.delimiter, a.quote = a.delimiter or ",", a.quote or '"'
   check_char("delimiter", a.delimiter)
   check_char("quote", a.quote, true)
   if a.quote == a.delimiter then args.refuse(name, "quote", "another than delimiter", a.quote) end
   if a.batch_size < 1 then
      args.refuse(name, "batch_size", "an integer of at least 1", a.batch_size)
   end
   local kind = type(a.header)
   if kind ~= "boolean" and kind ~= "table" then
      args.refuse(name, "header", "true, false or a list of names", a.header)
   end
   kind = type(a.dtypes)
   if a.dtypes ~= nil and kind ~= "string" and kind ~= "table" then
      args.refuse(name, "dtypes", "a dtype or a table from names to dtypes", a.dtypes)
   end
   if not io then torch.raise(name .. ": needs Lua's io library, which was not opened") end
end

local function open(self)
   local file <close>, message = io.open(self.path, "rb")
   if not file then torch.raise(name .. ": " .. message) end
   local bytes, why = source.protect(source.bytes, file, self.path)
   if bytes and self.path:lower():find "%.gz$" then bytes, why = torch.io.inflate(bytes, "gzip") end
   return bytes or fail(self, why)
end

-- Reads up to `rows` rows as columns of the given types. `place` has the position of the first row
-- and the number of its line; both are advanced to the end of the rows. Returns nil at the end of
-- the file.
local function read(self, bytes, types, rows, place)
   local columns, taken, at, line = torch.io.csv(bytes, place.at, self.delimiter, self.quote, types,
      rows, place.line)
   if not columns then fail(self, taken) end
   place.at, place.line = at, line
   if taken > 0 then return columns end
end

local function repeated(value, n)
   local list = {}
   for i = 1, n do list[i] = value end
   return list
end

-- Returns the first row as strings, the position of the second row, and the position of the first
-- row.
local function first_row(self, bytes)
   local place = {at = 1, line = 1}
   if bytes:numel() >= 3 and torch.io.text(bytes, 1, 3) == "\xEF\xBB\xBF" then place.at = 4 end
   local n, message = torch.io.csv_fields(bytes, place.at, self.delimiter, self.quote)
   if not n then fail(self, message) end
   if n == 0 then return {}, place end
   local begin = {at = place.at, line = 1}
   local columns = read(self, bytes, repeated("string", n), 1, place)
   local fields = {}
   for i = 1, n do fields[i] = columns[i][1] end
   return fields, place, begin
end

local function names_of(self, fields, header)
   local names = {}
   if header == false then
      for i = 1, #fields do names[i] = i end
      return names
   end
   if header ~= true then
      if #header ~= #fields and #fields > 0 then
         fail(self, ("header: expected %d names, got %d"):format(#fields, #header))
      end
      fields = header
   end
   local seen = {}
   for i, field in ipairs(fields) do
      if seen[field] then fail(self, ("two columns are named %q"):format(tostring(field))) end
      seen[field], names[i] = true, field
   end
   return names
end

local function is_integer(text)
   local plain = text:match "^[ \t]*%+?(-?%d+)[ \t]*$"
   return plain and math.type(tonumber(plain)) == "integer"
end

local function is_number(text)
   local plain = text:lower():match "^[ \t]*[-+]?(.-)[ \t]*$"
   return plain == "" or plain == "nan" or plain == "inf" or plain == "infinity"
      or plain:find "^[%d.]" and not plain:find "x" and tonumber(plain) ~= nil
end

local function is_boolean(text)
   local plain = text:lower():match "^[ \t]*(.-)[ \t]*$"
   return plain == "true" or plain == "false"
end

local function all(texts, fits)
   for _, text in ipairs(texts) do
      if not fits(text) then return false end
   end
   return #texts > 0
end

local function guess(texts)
   if all(texts, is_boolean) then return "bool" end
   if all(texts, is_integer) then return "int64" end
   local empty = all(texts, function(text) return not text:find "%S" end)
   if not empty and all(texts, is_number) then return torch.get_default_dtype() end
   return "string"
end

local function known_type(dtype)
   if dtype == "string" then return true end
   return type(dtype) == "string" and (pcall(torch.empty, {0}, {dtype = dtype}))
end

-- Returns a table from the names of columns to the dtypes that the user gave.
local function check_dtypes(self, dtypes)
   local given, known = {}, {}
   for _, column in ipairs(self.all_names) do known[column] = true end
   if type(dtypes) == "string" then
      for column in pairs(known) do given[column] = dtypes end
   else
      for column, dtype in pairs(dtypes or {}) do
         if not known[column] then
            fail(self, ("dtypes: there is no column %s"):format(tostring(column)))
         end
         given[column] = dtype
      end
   end
   for _, dtype in pairs(given) do
      if not known_type(dtype) then
         args.refuse(name, "dtypes", 'dtypes or "string"', dtype)
      end
   end
   return given
end

local function choose_columns(self, columns)
   if not columns then return nil end
   local known, chosen = {}, {}
   for _, column in ipairs(self.all_names) do known[column] = true end
   for _, column in ipairs(columns) do
      if not known[column] then
         fail(self, ("columns: there is no column %s"):format(tostring(column)))
      end
      chosen[column] = true
   end
   return chosen
end

-- Decides the type of each column. Sets self.types, the list of the columns' types that
-- torch.io.csv takes.
local function choose_types(self, bytes, a)
   local given, chosen = check_dtypes(self, a.dtypes), choose_columns(self, a.columns)
   local sample, types = {}, {}
   for i, column in ipairs(self.all_names) do
      types[i] = chosen and not chosen[column] and "skip" or given[column] or "string"
   end
   if #types > 0 then
      local place = {at = self.start.at, line = self.start.line}
      local there = {}
      for i, column in ipairs(self.all_names) do
         there[i] = types[i] ~= "skip" and not given[column] and "string" or "skip"
      end
      sample = read(self, bytes, there, looked_at, place) or {}
   end
   for i, column in ipairs(self.all_names) do
      if types[i] ~= "skip" then
         if sample[i] then types[i] = guess(sample[i]) end
         self.names[#self.names + 1], self.dtypes[column] = column, types[i]
      end
   end
   self.types = types
end

--- Opens the file. The options, with their defaults in parentheses, are:
--- * header (true): the first row has the names of the columns. With false the columns are
---   numbered. If the file has no row of names, the option may be a list of names.
--- * delimiter (","): the character between fields.
--- * quote ('"'): the character around quoted fields, which may hold any character, with quotes
---   doubled; "" for no quotes.
--- * columns: a list of the names of the columns that are read; other columns are skipped.
--- * dtypes: one dtype for all columns, or a table of dtypes by name; "string" for text.
--- * batch_size (65536): the number of rows in a batch.
---
--- A dtype that is not given is guessed from the first 1,000 rows: it is the first of bool, int64,
--- the default floating type and string that fits. Numbers have C's syntax; an empty field of a
--- floating column is nan. A file whose name ends in .gz is uncompressed.
---@param path string
---@param options? table
function CSV:__init(...)
   parent.__init(self)
   local a = signature(...)
   check(a)
   self.path, self.delimiter, self.quote = a.path, a.delimiter, a.quote
   self.batch_size, self.names, self.dtypes = a.batch_size, {}, {}
   local bytes = open(self)
   local fields, place, begin = first_row(self, bytes)
   self.all_names = names_of(self, fields, a.header)
   self.start = a.header == true and place or begin or place
   choose_types(self, bytes, a)
end

local function to_piece(self, columns)
   local piece = {}
   for i, column in ipairs(self.all_names) do
      if columns[i] then piece[column] = columns[i] end
   end
   return piece
end

--- Iterates over the rows, `batch_size` at a time, in the file's order.
---@return fun(): table<string|integer, Tensor|string[]>?
function CSV:iter()
   local bytes = open(self)
   local place = {at = self.start.at, line = self.start.line}
   return function()
      if #self.names == 0 or place.at > bytes:numel() then return nil end
      local columns = read(self, bytes, self.types, self.batch_size, place)
      return columns and to_piece(self, columns)
   end
end

--- Returns all rows as one batch.
---@return table<string|integer, Tensor|string[]>
function CSV:read()
   if #self.names == 0 then return {} end
   local bytes = open(self)
   local place = {at = self.start.at, line = self.start.line}
   local columns = read(self, bytes, self.types, math.maxinteger, place)
   if columns then return to_piece(self, columns) end
   local piece = {}
   for _, column in ipairs(self.names) do
      local dtype = self.dtypes[column]
      piece[column] = dtype == "string" and {} or torch.empty({0}, {dtype = dtype, device = "cpu"})
   end
   return piece
end

--- Returns all rows as one matrix, in the dtype that can hold all columns.
---@return Tensor  (rows, columns)
function CSV:tensor()
   local piece, list = self:read(), {}
   for i, column in ipairs(self.names) do
      if self.dtypes[column] == "string" then
         fail(self, ("column %d is not a number, but text, as in %q"):format(i,
            tostring(piece[column][1])))
      end
      list[i] = piece[column]
   end
   if #list == 0 then fail(self, "there is no column") end
   local dtype = list[1].dtype
   for _, column in ipairs(list) do dtype = torch.promote_types(dtype, column.dtype) end
   for i, column in ipairs(list) do list[i] = column:to(dtype) end
   return torch.stack(list, 2)
end

return CSV
