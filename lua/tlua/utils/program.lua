-- program.lua - finds the program tlua, for packages that start it as another process.

local torch = require "tlua"

--- Returns the path of the program tlua that belongs to this library.
---@return string
return function()
   local own = torch._library_path()
   if not own:find "%.%a+[%d.]*$" then return own end
   local folder = own:match "^(.*)/" or "."
   for _, place in ipairs {"/tlua", "/../bin/tlua", "/../../../bin/tlua"} do
      local file <close> = io.open(folder .. place)
      if file then return folder .. place end
   end
   return "tlua"
end
