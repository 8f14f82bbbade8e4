-- sources.lua - pipes that read from memory or from files instead of other pipes.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local copy = require "tlua.datapipes.copy"
local glob = require "tlua.datapipes.glob"
local guard = require "tlua.datapipes.guard"
local items = require "tlua.data.items"
local io_folder = require "tlua.io.folder"
local rows = require "tlua.datapipes.rows"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

local M = {}

-- IterableWrapper ---------------------------------------------------------------------------------

local wrapper_signature = args.signature [[data.datapipes.iter.IterableWrapper(iterable: any,
   deepcopy: boolean = true)]]

--- Creates a pipe from a list, a tensor, or any object that can be iterated over.
---
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {"a", "b"}
---     for x in pipe:iter() do print(x) end
---     --> a
---     --> b
---@class data.datapipes.iter.IterableWrapper: data.IterDataPipe
---@overload fun(iterable: any, deepcopy?: boolean): data.datapipes.iter.IterableWrapper
M.IterableWrapper = class.class("data.datapipes.iter.IterableWrapper", IterDataPipe)

local IterableWrapper = M.IterableWrapper
IterableWrapper.leaves = {iterable = true}

local function has_iter(value)
   return type(value) == "table" and getmetatable(value) and value.iter ~= nil
end

--- Wraps a list, the rows of a tensor, an object with a method `iter`, or a function that returns
--- an iterator. If an item of a list is a table, it is one value; `map(table.unpack)` unpacks it.
--- With `deepcopy`, tables and tensors are copied when they are read, so that in-place changes do
--- not affect the wrapped object.
---@param iterable any
---@param deepcopy? boolean  true by default
function IterableWrapper:__init(...)
   local a = wrapper_signature(...)
   local iterable = a.iterable
   if not (type(iterable) == "function" or has_iter(iterable) or items.is_dataset(iterable)
      and (torch.is_tensor(iterable) or not getmetatable(iterable))) then
      args.refuse("data.datapipes.iter.IterableWrapper", "iterable",
         "a list, a tensor, an object with a method iter or a function that returns an iterator",
         iterable)
   end
   if type(iterable) == "table" and not getmetatable(iterable) then
      rows.check_list("data.datapipes.iter.IterableWrapper", "iterable", iterable, "a value")
   end
   self.iterable, self.deepcopy = iterable, a.deepcopy
end

-- Returns an iterator over the wrapped items.
local function reader(iterable)
   if type(iterable) == "function" then return iterable() end
   if has_iter(iterable) then return iterable:iter() end
   local i, n = 0, #iterable
   return function()
      if i >= n then return nil end
      i = i + 1
      return iterable[i]
   end
end

-- Returns copies of an item's values.
local function copied(first, ...)
   if select("#", ...) == 0 then return copy.deep(first) end
   local values = table.pack(first, ...)
   return table.unpack(copy.deep(values), 1, values.n)
end

function IterableWrapper:iter()
   local next_item = reader(self.iterable)
   guard.check_next(self, "iterable", next_item)
   if not self.deepcopy then return next_item end
   return function() return copied(next_item()) end
end

function IterableWrapper:__len()
   if type(self.iterable) == "function" then
      torch.raise("data.datapipes.iter.IterableWrapper has no length: it wraps a function")
   end
   if has_iter(self.iterable) then return rows.length(self.iterable) end
   return #self.iterable
end

-- Files -------------------------------------------------------------------------------------------

-- Returns the option `length` of a pipe. Raises an error if the option is not given.
local function nominal_length(self)
   if self.length < 0 then torch.raise(("%s has no length"):format(torch.type(self))) end
   return self.length
end

local lister_signature = args.signature [[data.datapipes.iter.FileLister(root: any = '.',
   masks: any = '', recursive: boolean = false, abspath: boolean = false,
   non_deterministic: boolean = false, length: integer = -1)]]

---     torch.io.make_folder "arrays"
---     torch.save(torch.ones(1), "arrays/b.npy")
---     torch.save(torch.ones(1), "arrays/a.npy")
---     local P = torch.data.datapipes.iter
---     for path in P.FileLister("arrays", "*.npy"):iter() do print(path) end
---     --> arrays/a.npy
---     --> arrays/b.npy
---@class data.datapipes.iter.FileLister: data.IterDataPipe
---@overload fun(root?, masks?, options?: table): data.datapipes.iter.FileLister
M.FileLister = class.class("data.datapipes.iter.FileLister", IterDataPipe)

local FileLister <const> = M.FileLister
local lister <const> = "data.datapipes.iter.FileLister"

--- Returns the paths of files in folders. The paths are sorted within each folder, and a folder's
--- own files come before the files in its subfolders. `root` is a path, a list of paths or a pipe
--- of paths. A root that is a file is returned unchanged. `masks` are patterns for names with *, ?,
--- [abc] and [!abc]; "" matches all names. There are four options. With `recursive`, subfolders are
--- searched too, but links to folders are not followed. With `abspath`, the paths are absolute;
--- otherwise they begin like the root. `non_deterministic` allows any order, but the paths are
--- sorted anyway. `length` is the number that the operator # returns.
---@param root? string|string[]|data.IterDataPipe  "." by default
---@param masks? string|string[]
---@param options? {recursive?: boolean, abspath?: boolean, non_deterministic?: boolean,
--- length?: integer}
function FileLister:__init(...)
   local a = lister_signature(...)
   local root = type(a.root) == "string" and {a.root} or a.root
   if type(root) == "table" and not getmetatable(root) then
      for i = 1, #root do
         if type(root[i]) ~= "string" then
            args.refuse(lister, ("root[%d]"):format(i), "a path", root[i])
         end
      end
      root = IterableWrapper(table.move(root, 1, #root, 1, {}))
   end
   if not items.is_stream(root) then
      args.refuse(lister, "root", "a path, a list of paths or a pipe of paths", a.root)
   end
   local masks = type(a.masks) == "string" and {a.masks} or a.masks
   if type(masks) ~= "table" then
      args.refuse(lister, "masks", "a string or a list of strings", masks)
   end
   for i = 1, #masks do
      if type(masks[i]) ~= "string" then
         args.refuse(lister, ("masks[%d]"):format(i), "a string", masks[i])
      end
   end
   self.datapipe, self.masks, self.length = root, masks, a.length
   self.recursive, self.abspath = a.recursive, a.abspath
end

-- Adds the files of a folder to a list of paths, and then the files of its subfolders.
local function collect(self, folder, fits, paths)
   local folders, files, links = io_folder.list(folder)
   if not folders then torch.raise(("%s: %s: %s"):format(lister, folder, files)) end
   local before = folder:find "/$" and folder or folder .. "/"
   for _, file in ipairs(files) do
      if fits(file) then paths[#paths + 1] = before .. file end
   end
   if not self.recursive then return end
   for _, inner in ipairs(folders) do
      if not links[inner] then collect(self, before .. inner, fits, paths) end
   end
end

-- Returns the path of a folder in the form in which it appears in the pipe's paths: an absolute
-- path with `abspath`, and otherwise the given path.
local function told(self, folder)
   if not self.abspath then return folder end
   local path, message = io_folder.absolute(folder)
   if not path then torch.raise(("%s: %s: %s"):format(lister, folder, message)) end
   return path
end

-- Returns the path of a root that is a file, in the form in which the pipe returns it: an absolute
-- path with `abspath`, and otherwise the given path.
local function told_file(self, path)
   if not self.abspath then return path end
   local folder, name = path:match "^(.-)[/\\]*([^/\\]*)$"
   return told(self, folder == "" and (path:find "^/" and "/" or ".") or folder) .. "/" .. name
end

-- Returns the paths of the files below a root that fit. If the root itself is a readable file, its
-- path is returned.
local function paths_of(self, root, fits)
   if type(root) ~= "string" then args.refuse(lister, "root", "paths", root) end
   local paths = {}
   local folders, message = io_folder.list(root)
   if folders then
      collect(self, told(self, root), fits, paths)
      return paths
   end
   local file <close> = io.open(root, "rb")
   if not file then torch.raise(("%s: %s: %s"):format(lister, root, message)) end
   if fits(root:match "[^/\\]*$") then paths[1] = told_file(self, root) end
   return paths
end

function FileLister:iter()
   local next_root, fits = self.datapipe:iter(), glob.any(self.masks)
   local paths, at = {}, 0
   return function()
      at = at + 1
      while not paths[at] do
         local root = next_root()
         if root == nil then return nil end
         paths, at = paths_of(self, root, fits), 1
      end
      return paths[at]
   end
end

FileLister.__len = nominal_length

local opener_signature = args.signature [[data.datapipes.iter.FileOpener(datapipe: any,
   mode: string = 'r', length: integer = -1)]]

---     io.open("poem.txt", "w"):write("one\ntwo\n"):close()
---     local P = torch.data.datapipes.iter
---     local pipe = P.FileOpener(P.FileLister(".", "poem.txt"))
---     for path, file in pipe:iter() do print(path, file:read()) end
---     --> ./poem.txt	one
---@class data.datapipes.iter.FileOpener: data.IterDataPipe
---@overload fun(datapipe: any, mode?: string, length?: integer): data.datapipes.iter.FileOpener
M.FileOpener = class.class("data.datapipes.iter.FileOpener", IterDataPipe)

local FileOpener <const> = M.FileOpener
local opener <const> = "data.datapipes.iter.FileOpener"

--- Opens the files whose paths a pipe returns. An item consists of the path and the file. A pipe
--- that reads a file, such as StreamReader, closes it. The garbage collector closes files that are
--- abandoned.
---@param datapipe data.IterDataPipe
---@param mode? string  "r" (the default), "t" or "rt" for text, "b" or "rb" for bytes
---@param length? integer  the value of the operator #
function FileOpener:__init(...)
   local a = opener_signature(...)
   rows.check_stream(opener, "datapipe", a.datapipe)
   local modes <const> = {r = "r", t = "r", rt = "r", b = "rb", rb = "rb"}
   if not modes[a.mode] then
      args.refuse(opener, "mode", [["r", "t", "rt", "b" or "rb"]], a.mode)
   end
   self.datapipe, self.mode, self.length = a.datapipe, modes[a.mode], a.length
end

function FileOpener:iter()
   local next_path = self.datapipe:iter()
   return function()
      local path = next_path()
      if path == nil then return nil end
      if type(path) ~= "string" then args.refuse(opener, "datapipe", "paths as items", path) end
      local file, message = io.open(path, self.mode)
      if not file then
         -- too many files may be open, so the garbage collector closes those that were abandoned
         collectgarbage()
         file, message = io.open(path, self.mode)
      end
      if not file then torch.raise(("%s: %s"):format(opener, message)) end
      return path, file
   end
end

FileOpener.__len = nominal_length

local reader_signature = args.signature [[data.datapipes.iter.StreamReader(datapipe: any,
   chunk: integer?)]]

---     io.open("song.txt", "w"):write("one\ntwo\n"):close()
---     local P = torch.data.datapipes.iter
---     local files = P.FileOpener(P.FileLister(".", "song.txt"))
---     for path, bytes in P.StreamReader(files):iter() do print(path, #bytes) end
---     --> ./song.txt	8
---@class data.datapipes.iter.StreamReader: data.IterDataPipe
---@overload fun(datapipe: any, chunk?: integer): data.datapipes.iter.StreamReader
M.StreamReader = class.class("data.datapipes.iter.StreamReader", IterDataPipe)

local StreamReader <const> = M.StreamReader
local stream_reader <const> = "data.datapipes.iter.StreamReader"

--- Reads streams. For each item with a label and a stream, it returns items with the label and
--- bytes. A stream is a file, or an object with a method `read` and optionally a method `close`. It
--- is closed at the end.
---@param datapipe data.IterDataPipe
---@param chunk? integer  the number of bytes to read at a time; all by default
function StreamReader:__init(...)
   local a = reader_signature(...)
   rows.check_stream(stream_reader, "datapipe", a.datapipe)
   if a.chunk and a.chunk < 1 then
      args.refuse(stream_reader, "chunk", "an integer of at least 1", a.chunk)
   end
   self.datapipe, self.chunk = a.datapipe, a.chunk
end

local function is_readable(stream)
   if io.type(stream) then return io.type(stream) == "file" end
   return type(stream) == "table" and type(stream.read) == "function"
end

-- Reads a part of a stream. Returns nil at the end.
local function read(stream, label, chunk)
   local bytes, message = stream:read(chunk or "a")
   if bytes == nil and message then
      torch.raise(("%s: %s: %s"):format(stream_reader, tostring(label), tostring(message)))
   end
   if bytes ~= nil and type(bytes) ~= "string" then
      args.refuse(stream_reader, "datapipe", "streams whose method read returns strings", bytes)
   end
   return bytes
end

function StreamReader:iter()
   local next_stream = self.datapipe:iter()
   local label, stream
   return function()
      while true do
         if not stream then
            label, stream = next_stream()
            if label == nil then return nil end
            if not is_readable(stream) then
               args.refuse(stream_reader, "datapipe", "a label and an open stream as items", stream)
            end
         end
         local bytes = read(stream, label, self.chunk)
         if bytes and #bytes > 0 then return label, bytes end
         if stream.close then stream:close() end
         stream = nil
      end
   end
end

return M
