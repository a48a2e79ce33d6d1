"""
A page with search and images by datamapplot
============================================

``EmbeddingDisplay.to_html`` writes a page that shows a text at each point. datamapplot
writes pages with a search and with images (``pip install datamapplot``). It takes the
positions and the names of the classes.
"""

# %%
# A map of images
# ---------------
from sklearn.datasets import load_digits

from sk_stormc import SNEEmbedding
from sk_stormc.plotting import EmbeddingDisplay

images, y = load_digits(return_X_y=True)
embedding = SNEEmbedding(random_state=0).fit(images)
display = EmbeddingDisplay.from_estimator(embedding, y)

# %%
# Each image becomes a small PNG file within the page.
import base64
import io

import numpy as np
from PIL import Image


def as_source(pixels):
    """An image of 8 x 8 pixels as the source of an HTML element."""
    file = io.BytesIO()
    picture = Image.fromarray(255 - np.uint8(pixels.reshape(8, 8) * 15.9))
    picture.resize((64, 64), Image.Resampling.NEAREST).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


# %%
# The page
# --------
# The names of the classes are written on the map, and grow as the page is enlarged. The
# search shows the points whose text contains the words. Open the file in a browser: it
# loads its scripts from the network.
import datamapplot
import pandas as pd

names = np.array([f"digit {digit}" for digit in y])
page = datamapplot.create_interactive_plot(
    embedding.embedding_,
    names,
    hover_text=[f"{name}, row {row}" for row, name in enumerate(names)],
    extra_point_data=pd.DataFrame({"image": [as_source(pixels) for pixels in images]}),
    hover_text_html_template='<img src="{image}"><br>{hover_text}',
    enable_search=True,
    title="Digits",
)
page.save("digits.html")
