-- package_of.lua - passes a function and its arguments to new processes through a folder. The
-- folder has rank.lua, a script that calls `run`, and the bytes and tensors into which _pack
-- converts the values.

local torch = require "tlua"

local M = {}

-- Reads a number that is stored in a binary format of fixed length (string.unpack).
local function read_number(file, format)
   return (string.unpack(format, file:read(string.packsize(format))))
end

local function write_tensor(file, t)
   local shape = t.shape
   assert(file:write(string.pack("<s1BB", t.dtype, t.is_parameter and 1 or 0, #shape)))
   for _, n in ipairs(shape) do assert(file:write(string.pack("<i8", n))) end
   assert(torch.io.write(file, t))
end

local function read_tensor(file)
   local dtype = file:read(read_number(file, "B"))
   local is_parameter, shape = read_number(file, "B") == 1, {}
   for i = 1, read_number(file, "B") do shape[i] = read_number(file, "<i8") end
   local t = assert(torch.io.read(file, shape, dtype))
   if is_parameter then t.is_parameter = true end
   return t
end

--- Writes the files that pass a function and its arguments into a folder.
---@param folder string
---@param fn function
---@param arguments table  a list; `n` is its length if it may contain nil
function M.write(folder, fn, arguments)
   local n = arguments.n or #arguments
   local bytes, tensors = torch._pack("spawn", fn, n, table.unpack(arguments, 1, n))
   local file <close> = assert(io.open(folder .. "/parcel", "wb"))
   assert(file:write(string.pack("<s8I8", bytes, #tensors)))
   for _, t in ipairs(tensors) do write_tensor(file, t) end
   local script <close> = assert(io.open(folder .. "/rank.lua", "w"))
   assert(script:write(
      ("package.path, package.cpath = %q, %q\n"):format(package.path, package.cpath),
      ("torch.multiprocessing._run(%q)\n"):format(folder)))
   assert(script:flush())
   assert(file:flush())
end

local function read(folder)
   local file <close> = assert(io.open(folder .. "/parcel", "rb"))
   local bytes, tensors = file:read(read_number(file, "<I8")), {}
   for i = 1, read_number(file, "<I8") do tensors[i] = read_tensor(file) end
   return torch._unpack(bytes, tensors)
end

local function call(fn, n, ...)
   return fn(math.tointeger(tonumber(os.getenv "RANK")), table.unpack({...}, 1, n))
end

--- Calls the function in a started process. If the function fails, writes the error into the
--- folder, with the time, so that the first error can be found.
---@param folder string
function M.run(folder)
   local ok, why = xpcall(function() return call(read(folder)) end, debug.traceback)
   if ok then return end
   local file <close> = io.open(("%s/error.%s"):format(folder, os.getenv "RANK"), "w")
   if file then file:write(("%.9f\n"):format(torch.io.clock()), tostring(why)) end
   io.stderr:write(tostring(why), "\n")
   os.exit(1, true)
end

return M
