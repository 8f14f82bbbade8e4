-- callables.lua - the pipes Mapper, Collator and Filter, which call a function for each item.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local collate = require "tlua.data.collate"
local copy = require "tlua.datapipes.copy"
local rows = require "tlua.datapipes.rows"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

local M = {}

-- Columns: positions in an item of several values, or keys of an item that is a table ------------

local function check_table(self, data)
   if type(data) == "table" or torch.is_tensor(data) and data:dim() > 0 then return end
   args.refuse(torch.type(self), "input_col",
      "items of several values, tables, or tensors with rows", data)
end

local function refuse_column(self, what, col)
   torch.raise(("%s: %s: the item has no column %s"):format(torch.type(self), what, tostring(col)))
end

-- Converts a column that is given by its position to a key of a table of n values. Negative
-- positions count from the end.
local function key_of(col, n)
   if math.type(col) == "integer" and col < 0 then return n + 1 + col end
   return col
end

-- Returns the values of an item in the input columns, in order. They are the arguments of the
-- function.
local function values_of(self, data, n)
   local cols = type(self.input_col) == "table" and self.input_col or {self.input_col}
   local values = {}
   for i, col in ipairs(cols) do
      local key = key_of(col, n)
      local is_row = math.type(key) == "integer" and key >= 1 and key <= n
      if torch.is_tensor(data) and not is_row then refuse_column(self, "input_col", col) end
      values[i] = data[key]
      if values[i] == nil then refuse_column(self, "input_col", col) end
   end
   return table.unpack(values, 1, #cols)
end

-- Calls fn with the values of an item. If input columns are given, calls fn with their values only.
local function call(self, fn, first, ...)
   if self.input_col == nil then return fn(first, ...) end
   if select("#", ...) > 0 then
      local data = table.pack(first, ...)
      return fn(values_of(self, data, data.n))
   end
   check_table(self, first)
   return fn(values_of(self, first, #first))
end

local function check_input(who, input_col)
   local kind = type(input_col)
   if kind == "table" and (getmetatable(input_col) or #input_col == 0) then
      args.refuse(who, "input_col", "a column or a list of them", input_col)
   end
   if kind == "table" then rows.check_list(who, "input_col", input_col, "a column") end
end

-- Removes the columns `cols` from a table of n values. Returns the number of values that remain.
local function remove(data, cols, n)
   table.sort(cols, function(a, b) return type(a) == "number" and type(b) == "number" and a > b end)
   for _, col in ipairs(cols) do
      if math.type(col) == "integer" and col <= n then
         table.move(data, col + 1, n, col)
         data[n] = nil
         n = n - 1
      else
         data[col] = nil
      end
   end
   return n
end

-- Writes the function's result to the output column of a table of n values. Returns the new number
-- of values.
local function write(self, data, n, result)
   local out, input = self.output_col, self.input_col
   if out == -1 then
      data[n + 1] = result
      return n + 1
   elseif out ~= nil then
      data[key_of(out, n)] = result
      return math.max(n, math.type(out) == "integer" and out or 0)
   elseif type(input) ~= "table" then
      data[key_of(input, n)] = result
      return n
   end
   data[key_of(input[1], n)] = result
   local others = {}
   for i = 2, #input do others[i - 1] = key_of(input[i], n) end
   return remove(data, others, n)
end

-- Mapper ------------------------------------------------------------------------------------------

local mapper_signature = args.signature [[data.datapipes.iter.Mapper(datapipe: any, fn: callable,
   input_col: any?, output_col: any?)]]

--- Calls a function for each item. The function's results are the new item.
---
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1, 2, 3, 4}
---     pipe = pipe:map(function(x) return 10 * x end)
---     for x in pipe:iter() do print(x) end
---     --> 10
---     --> 20
---     --> 30
---     --> 40
---@class data.datapipes.iter.Mapper: data.IterDataPipe
---@overload fun(datapipe, fn: function, input_col?, output_col?): data.datapipes.iter.Mapper
M.Mapper = class.class("data.datapipes.iter.Mapper", IterDataPipe)

local Mapper <const> = M.Mapper

--- Calls `fn` for each item; the results, one value or several, become the new item. With
--- `input_col`, fn gets only these columns: positions in an item of several values, or keys of a
--- table. The result then replaces the first of these columns, and the other input columns are
--- removed. With `output_col`, the result is stored in that column instead (-1 appends one), and no
--- column is removed. If the item is a table or a tensor, it is changed in place. The columns of a
--- tensor are its rows; they cannot be appended or removed.
---@param datapipe data.IterDataPipe
---@param fn function
---@param input_col? integer|string|any[]
---@param output_col? integer|string|any[]  a list must have exactly one element
function Mapper:__init(...)
   local a = mapper_signature(...)
   local who, out = torch.type(self), a.output_col
   rows.check_stream(who, "datapipe", a.datapipe)
   check_input(who, a.input_col)
   if out ~= nil and a.input_col == nil then
      args.refuse(who, "output_col", "none without an input_col", out)
   end
   if type(out) == "table" then
      if #out ~= 1 then args.refuse(who, "output_col", "one column", out) end
      out = out[1]
   end
   if out ~= out then args.refuse(who, "output_col", "a column", out) end
   self.datapipe, self.fn, self.input_col, self.output_col = a.datapipe, a.fn, a.input_col, out
end

-- Raises an error unless the rows of a tensor can be replaced as the pipe requires. A tensor has a
-- fixed number of rows, so none can be appended or removed.
local function check_rows(self, tensor, result)
   local out, input = self.output_col, self.input_col
   if out == -1 then
      args.refuse(torch.type(self), "output_col", "a column of the item, which is a tensor", -1)
   elseif out == nil and type(input) == "table" and #input > 1 then
      args.refuse(torch.type(self), "input_col", "one column of the item, which is a tensor", input)
   end
   local kind = torch.is_tensor(result) and "table" or type(result)
   if kind ~= "number" and kind ~= "boolean" and kind ~= "table" then
      args.refuse(torch.type(self), "fn", "a row of a tensor as its result", result)
   end
   local n, place = #tensor, key_of(out, #tensor)
   if out ~= nil and (math.type(place) ~= "integer" or place < 1 or place > n) then
      refuse_column(self, "output_col", out)
   end
end

-- Raises an error if the output column of an item of n values is neither one of its columns nor the
-- next column.
local function check_output(self, n)
   local out = self.output_col
   if out == nil then return end
   local place = key_of(out, n)
   if math.type(place) ~= "integer" or place < 1 or place > n + 1 then
      refuse_column(self, "output_col", out)
   end
end

local function mapped(self, first, ...)
   if first == nil then return nil end
   if self.input_col == nil then return rows.given(self, "fn", self.fn(first, ...)) end
   local result = rows.given(self, "fn", call(self, self.fn, first, ...))
   if select("#", ...) == 0 then
      if torch.is_tensor(first) then check_rows(self, first, result) end
      local out = self.output_col
      if math.type(out) == "integer" and out < -1 and out < -#first then
         refuse_column(self, "output_col", out)
      end
      write(self, first, #first, result)
      return first
   end
   local data = table.pack(first, ...)
   check_output(self, data.n)
   return table.unpack(data, 1, write(self, data, data.n, result))
end

function Mapper:iter()
   local next_item = self.datapipe:iter()
   return function() return mapped(self, next_item()) end
end

function Mapper:__len() return rows.length(self.datapipe) end

-- Collator ----------------------------------------------------------------------------------------

local collator_signature = args.signature [[data.datapipes.iter.Collator(datapipe: any,
   conversion: callable|names?, collate_fn: callable?)]]

---@class data.datapipes.iter.Collator: data.datapipes.iter.Mapper
---@overload fun(datapipe, conversion?, collate_fn?: function): data.datapipes.iter.Collator
M.Collator = class.class("data.datapipes.iter.Collator", Mapper)

local collator <const> = "data.datapipes.iter.Collator"

-- Converts a batch for default_collate, which needs lists as items. An item that is a single value
-- becomes a list with one element.
local function collate_batch(batch)
   if type(batch) ~= "table" then args.refuse(collator, "datapipe",
      "batches, which batch makes", batch) end
   local list = {}
   for i, item in ipairs(batch) do
      local is_list = type(item) == "table" and not getmetatable(item) and #item > 0
      list[i] = is_list and item or {item}
   end
   return collate.default_collate(list)
end

-- Returns a function that converts each column of a table. A column is converted by its function in
-- `conversion`, or by default_convert if it has none.
local function by_column(conversion)
   return function(frame)
      if type(frame) ~= "table" then
         args.refuse(collator, "datapipe", "tables of columns", frame)
      end
      local converted = {}
      for name, column in pairs(frame) do
         converted[name] = (conversion[name] or collate.default_convert)(column)
      end
      for name in pairs(conversion) do
         if frame[name] == nil then
            torch.raise(("%s: conversion: the item has no column %s"):format(collator, name))
         end
      end
      return converted
   end
end

--- Converts batches to tensors. By default, default_collate combines the values that all items have
--- at the same position. Instead, the caller can pass a function. For tables of columns, the caller
--- can pass a table with a function for each column; default_convert converts the other columns.
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper({1, 2, 3, 4}):batch(2):collate()
---     for batch in pipe:iter() do print(batch) end
---     --> tensor([1, 2])
---     --> tensor([3, 4])
---@param datapipe data.IterDataPipe
---@param conversion? function|table<string, function>
---@param collate_fn? function  a function to be used instead of `conversion`
function M.Collator:__init(...)
   local a = collator_signature(...)
   local fn = a.collate_fn or a.conversion or collate_batch
   if fn == a.conversion and type(fn) == "table" and not getmetatable(fn) then
      for name, convert in pairs(fn) do
         if type(convert) ~= "function" then
            args.refuse(collator, ("conversion.%s"):format(name), "a function",
               convert)
         end
      end
      fn = by_column(copy.shallow(fn))
   end
   Mapper.__init(self, a.datapipe, fn)
end

-- Filter ------------------------------------------------------------------------------------------

local filter_signature = args.signature [[data.datapipes.iter.Filter(datapipe: any,
   filter_fn: callable, input_col: any?)]]

--- Keeps the items for which a function returns true.
---
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1, 2, 3, 4}
---     pipe = pipe:filter(function(x) return x % 2 == 0 end)
---     for x in pipe:iter() do print(x) end
---     --> 2
---     --> 4
---@class data.datapipes.iter.Filter: data.IterDataPipe
---@overload fun(datapipe, filter_fn: function, input_col?): data.datapipes.iter.Filter
M.Filter = class.class("data.datapipes.iter.Filter", IterDataPipe)

local Filter <const> = M.Filter

--- Creates the pipe. `filter_fn` must return true to keep an item or false to drop it. With
--- `input_col`, it gets only these columns of the item, as the function of Mapper does.
---@param datapipe data.IterDataPipe
---@param filter_fn fun(...): boolean
---@param input_col? integer|string|any[]
function Filter:__init(...)
   local a = filter_signature(...)
   rows.check_stream("data.datapipes.iter.Filter", "datapipe", a.datapipe)
   check_input("data.datapipes.iter.Filter", a.input_col)
   self.datapipe, self.filter_fn, self.input_col = a.datapipe, a.filter_fn, a.input_col
end

local function accepts(self, ...)
   local answer = call(self, self.filter_fn, ...)
   if type(answer) ~= "boolean" then
      args.refuse("data.datapipes.iter.Filter", "filter_fn", "a boolean as its result", answer)
   end
   return answer
end

function Filter:iter()
   local next_item = self.datapipe:iter()
   local find
   local function pass(first, ...)
      if first == nil or accepts(self, first, ...) then return first, ... end
      return find()
   end
   function find() return pass(next_item()) end
   return find
end

return M
