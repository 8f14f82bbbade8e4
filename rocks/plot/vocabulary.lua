-- vocabulary.lua - describes the parameters of torch.utils.plot, for help and the manual. The
-- format is explained in lua/tlua/repl/vocabulary.lua.
return [[
X: the matrix; for contours, the positions of the columns
Y: the positions of the matrix's rows
Z: the matrix of heights
alpha: from 0, invisible, to 1
aspect: "equal", so that cells are squares, or "auto", which fills the axes
azim: the direction of view in degrees around the z axis
bins: the number of bins, or their edges
bottom: where bars begin; the lower end of the axis
c: a colour, or a number for each point, which cmap shows as a colour
capsize: half the width of an error bar's ends in pixels; 0 for none
cmap: the map of colours: viridis, magma, plasma, coolwarm or gray; the ending _r reverses it
color: a name such as "red", one of "C0" to "C9", "#rrggbb", or {r, g, b} from 0 to 1
colors: the colour of all lines, instead of cmap
density: whether to scale the bars to a total area of 1
edgecolor: the colour of the bars' edges
elev: the direction of view in degrees above the plane of x and y
extent: {left, right, bottom, top}
figsize: width and height in hundreds of pixels
fontsize: the height of the letters in pixels
ha: the part of the text that is at the position: "left", "center" or "right"
height: the heights of the bars
label: the name in the legend; of a bar of colours, the text beside it
labels: the texts
left: the left end of the axis
levels: the heights of the contours, or the largest number of parts into which they divide the range
linestyle: "-", "--", ":", "-." or "none"
linewidth: the width in pixels
linewidths: the width in pixels
loc: the corner, such as "upper right", or "best"
mappable: the result of imshow, contour, contourf or scatter
marker: "o", "s", "^", "v", "D", "x", "+" or "."
markersize: the size of markers in pixels
ncols: the number of columns
norm: "linear" or "log"
nrows: the number of rows
on: whether to show grid lines
origin: where row 1 is: "upper" or "lower"
path: the path of the file
projection: "3d" for drawings in space
range: the lowest and the highest value that are counted
right: the right end of the axis
s: the text; of points, their areas in square pixels
scale: "linear" or "log"
showfliers: whether values beyond the whiskers are shown
text: the text
ticks: the positions
top: the upper end of the axis
vmax: the value with the map's last colour
vmin: the value with the map's first colour
whis: the whiskers' largest length, as a multiple of the quartiles' distance
width: the width of bars
widths: the width of boxes
x: the horizontal positions, or the values
xerr: horizontal errors: a number, one for each point, or {below, above}
xy: the position, {x, y}
xytext: the position of the text, {x, y}
y: the vertical positions
y1: one border
y2: the other border
yerr: vertical errors: a number, one for each point, or {below, above}
z: the heights
]]
