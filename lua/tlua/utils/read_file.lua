-- read_file.lua - reads a whole file.

--- Returns a file's bytes, or nil and a message that names the file.
---@param path string
---@return string? bytes
---@return string? message
return function(path)
   local file <close>, message = io.open(path, "rb")
   if not file then return nil, message end
   local bytes
   bytes, message = file:read "a" -- a folder can be opened, but not read
   if not bytes then return nil, ("%s: %s"):format(path, message) end
   return bytes
end
