"""
Five dimensions before a classifier
===================================

An embedding needs no labels. It can therefore be fitted on many images, while a
classifier that uses the embedding needs labels for only a few of them. The embedding of
this example has five dimensions, since it need not be plotted.
"""

# %%
# Four representations of the same digits
# ---------------------------------------
# All of them are fitted on 1,297 images without labels, and then transform the other
# 500 images.
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from sk_stormc import SNEEmbedding

X, y = load_digits(return_X_y=True)
X_train, X_new, y_train, y_new = train_test_split(
    X, y, test_size=500, random_state=0, stratify=y
)
representations = {"64 pixels": (X_train, X_new)}
for name, model in {
    "5 principal components": PCA(5, random_state=0),
    "SNEEmbedding(5)": SNEEmbedding(5, random_state=0),  # the Gaussian kernel
    'SNEEmbedding(5, kernel="student-t")': SNEEmbedding(
        5, kernel="student-t", random_state=0
    ),
}.items():
    model.fit(X_train)
    representations[name] = model.transform(X_train), model.transform(X_new)

# %%
# Accuracy with few labels
# ------------------------
# A nearest-neighbour classifier is trained on 20 labelled images, on 50, and so on.
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

sizes, rng = (20, 50, 100, 200, 500, 1297), np.random.default_rng(0)
samples = [[rng.permutation(len(y_train))[:size] for _ in range(20)] for size in sizes]
accuracy = {}
for name, (train, new) in representations.items():
    accuracy[name] = [
        np.mean(
            [
                KNeighborsClassifier(1)
                .fit(train[rows], y_train[rows])
                .score(new, y_new)
                for rows in of_size
            ]
        )
        for of_size in samples
    ]
    print(f"{name:36}" + "".join(f"{value:8.3f}" for value in accuracy[name]))

# %%
# With few labels both embeddings are more accurate than the 64 pixels, although they
# have only five components. The kernel of t-SNE separates the clusters, so that the
# nearest labelled image mostly has the correct label. With all labels the pixels are as
# accurate.
from matplotlib import pyplot as plt

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (name, values), style in zip(
    accuracy.items(), (":k", "-.C1", "-C2", "--C0"), strict=True
):
    ax.plot(sizes, values, style, marker="o", markersize=4, label=name)
ax.set(xscale="log", xlabel="labelled images", ylabel="accuracy on 500 new images")
ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
ax.minorticks_off()
ax.grid(alpha=0.3)
ax.legend(frameon=False, loc="lower right")
plt.show()
